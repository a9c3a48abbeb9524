#include "qat/weights/pruner.h"

#include <torch/nn/module.h>
#include <torch/utils.h>

#include <algorithm>
#include <span>

#include "base/files/text.h"
#include "formats/number/number_format.h"
#include "qat/weights/prune_masks.h"

namespace crumb::qat {
namespace {

/// Whether the grid has a value of exactly zero.
bool has_zero(const QuantSpec& spec) {
  if (spec.number->learned || spec.zero == ZeroPoint::kFloat) return false;
  if (spec.zero == ZeroPoint::kInteger) return true;
  const auto values = value_table(*spec.number);
  return std::any_of(values.begin(), values.begin() + (1 << spec.number->bits),
                     [](float value) { return value == 0; });
}

at::Tensor cpu_copy(const at::Tensor& tensor, at::ScalarType type) {
  return tensor.detach().to(at::kCPU, type).contiguous();
}

}  // namespace

std::optional<double> pruned_share(const std::vector<PrunedLayer>& layers) {
  if (layers.empty()) return std::nullopt;
  std::int64_t all = 0, gone = 0;
  for (const PrunedLayer& layer : layers) {
    all += layer.weights;
    gone += layer.pruned;
  }
  return all == 0 ? 0 : static_cast<double>(gone) / static_cast<double>(all);
}

/// The weights whose goals are equal.
class PruneGroup : public torch::nn::Module {
 public:
  explicit PruneGroup(const PruneGoal& goal)
      : goal_(goal), done_(register_buffer("steps", at::zeros({1}, at::kLong))) {}

  const PruneGoal& goal() const { return goal_; }

  std::size_t add(PrunedParameter weight) {
    const std::string number = std::to_string(members_.size());
    Member member{.weight = std::move(weight)};
    const at::Tensor& latent = member.weight.latent;
    WeightQuantizer* quantizer = member.weight.quantizer.get();
    const at::Tensor rows = latent.detach().permute(member.weight.to_rows);
    member.kept = register_buffer("kept" + number, rows.ne(0).contiguous());
    if (quantizer) quantizer->set_kept(member.kept);
    if (goal_.rewind) {
      member.rewound.push_back({latent, register_buffer("first" + number, latent.detach().clone())});
      if (quantizer) {
        for (const auto& own : quantizer->named_parameters()) {
          if (!quantizer->rewinds(own.key())) continue;
          member.rewound.push_back({own.value(), register_buffer("first" + number + "_" + own.key(),
                                                                 own.value().detach().clone())});
        }
      }
    }
    members_.push_back(std::move(member));
    return members_.size() - 1;
  }

  at::Tensor masked(std::size_t index, const at::Tensor& latent) const {
    const Member& member = members_[index];
    return at::where(member.kept.permute(member.weight.to_value), latent, at::zeros({}, latent.options()));
  }

  void prune(double progress) {
    const int due = prune_steps_due(progress, goal_.steps);
    const auto done = done_.item<std::int64_t>();
    if (due <= done) return;
    const torch::NoGradGuard no_gradients;
    if (done == 0) {
      for (const Member& member : members_)
        for (const Rewound& one : member.rewound) one.first.copy_(one.parameter);
    }
    take(goal_.share * due / goal_.steps);
    for (const Member& member : members_) {
      for (const Rewound& one : member.rewound) one.parameter.copy_(one.first);
    }
    done_.fill_(due);
  }

  PrunedLayer layer(std::size_t index) const {
    const Member& member = members_[index];
    const std::int64_t all = member.kept.numel();
    return {
        .name = member.weight.name, .weights = all, .pruned = all - member.kept.sum().item<std::int64_t>()};
  }

 private:
  struct Rewound {
    at::Tensor parameter, first;
  };
  struct Member {
    PrunedParameter weight;
    at::Tensor kept;  ///< bool, rows; the quantizer has it too
    std::vector<Rewound> rewound;
  };

  /// Prunes until this share is gone.
  void take(double share) {
    std::vector<at::Tensor> weights, masks;
    std::vector<PruneLayer> layers;
    for (const Member& member : members_) {
      weights.push_back(cpu_copy(member.weight.latent.permute(member.weight.to_rows), at::kFloat));
      masks.push_back(cpu_copy(member.kept, at::kBool).clone());
      if (!at::isfinite(weights.back()).all().item<bool>()) {
        throw Error("the weights of " + quote_text(member.weight.name) +
                    " hold inf or NaN; only finite values can be pruned");
      }
      const auto count = static_cast<std::size_t>(member.kept.numel());
      layers.push_back({.weights = {weights.back().const_data_ptr<float>(), count},
                        .kept = {masks.back().mutable_data_ptr<bool>(), count}});
    }
    if (goal_.scope == PruneGoal::Scope::kGlobal) {
      prune_global(layers, share, goal_.floor);
    } else {
      for (const PruneLayer& layer : layers) prune_layer(layer, share);
    }
    for (std::size_t i = 0; i < members_.size(); ++i) members_[i].kept.copy_(masks[i]);
  }

  PruneGoal goal_;
  at::Tensor done_;  ///< number of the schedule's steps that are done
  std::vector<Member> members_;
};

void Pruner::add(PrunedParameter weight, const PruneGoal& goal, const SpecOrKeep& spec) {
  const std::string name = weight.name;
  const bool becomes_zero = goal.share > 0, has_zeros = weight.latent.detach().eq(0).any().item<bool>();
  if (spec && !has_zero(*spec) && (becomes_zero || has_zeros)) {
    throw Error(
        quote_text(name) + (becomes_zero ? " is to be pruned" : " has zeros that are to stay") +
        ", but weights of " + spec->to_string() +
        " have no zero; expected a format that has one, as in int4:channel, ternary or e2m1, or prune: "
        "none for it");
  }
  auto group = std::ranges::find_if(groups_, [&](const auto& one) { return one->goal() == goal; });
  if (group == groups_.end()) {
    groups_.push_back(
        register_module("group" + std::to_string(groups_.size()), std::make_shared<PruneGroup>(goal)));
    group = groups_.end() - 1;
  }
  const std::size_t index = (*group)->add(std::move(weight));
  weights_[name] = {.group = *group, .index = index};
  order_.push_back(name);
}

at::Tensor Pruner::masked(const std::string& name, const at::Tensor& latent) const {
  const auto found = weights_.find(name);
  return found == weights_.end() ? latent : found->second.group->masked(found->second.index, latent);
}

void Pruner::prune(double progress) {
  for (const auto& group : groups_) group->prune(progress);
}

std::vector<PrunedLayer> Pruner::layers() const {
  std::vector<PrunedLayer> found;
  for (const std::string& name : order_) {
    const Weight& weight = weights_.at(name);
    found.push_back(weight.group->layer(weight.index));
  }
  return found;
}

}  // namespace crumb::qat
