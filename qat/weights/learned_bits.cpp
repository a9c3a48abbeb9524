#include "qat/weights/learned_bits.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "base/files/text.h"
#include "quant/budget/assignment.h"

namespace crumb::qat {
namespace {

constexpr double kAscent = 4;  // rise of the multiplier over the training, at one mean bit over the budget
constexpr double kGain = 4;    // factor of the squared error for one bit less

std::string plain_number(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.10g", value);
  return text;
}

/// Returns the bytes of a weight's packed codes.
std::uint64_t bytes_of(const QuantSpec& spec, const std::vector<std::int64_t>& shape) {
  const std::vector<std::uint64_t> sizes(shape.begin(), shape.end());
  return encoded_layout(spec.encoding(sizes), sizes).take().codes_bytes;
}

}  // namespace

double BitsLearner::Member::slope() const {
  if (costs.size() < 2) return 0;
  return static_cast<double>(costs.back() - costs.front()) / static_cast<double>(costs.size() - 1);
}

BitsLearner::BitsLearner(const BitBudget& budget) : torch::nn::Module("learned_bits"), budget_(budget) {
  multiplier_ = register_buffer("multiplier", at::zeros({1}, at::kDouble));
  progress_ = register_buffer("progress", at::zeros({1}, at::kDouble));
}

std::shared_ptr<WeightQuantizer> BitsLearner::quantizer_for(const graph::PlannedConstant& weight) const {
  if (!weight.learned_bits || !weight.spec || weight.scales != WeightScales::kLearned) return nullptr;
  if (!has_learnable_bits(*weight.spec)) return nullptr;
  return std::make_shared<BitsQuantizer>(*weight.spec, budget_.least, budget_.most);
}

void BitsLearner::add(const std::string& name, const QuantSpec& spec, const std::vector<std::int64_t>& shape,
                      const std::shared_ptr<WeightQuantizer>& quantizer, std::uint64_t bops_per_bit) {
  Member member{.name = name,
                .weights = c10::multiply_integers(shape),
                .quantizer = std::dynamic_pointer_cast<BitsQuantizer>(quantizer),
                .bits = spec.number->bits,
                .costs = {}};
  const auto cost = [&](const QuantSpec& of) {
    const auto bits = static_cast<std::uint64_t>(of.number->bits);
    if (budget_.bops > 0) return bops_per_bit * bits;
    return budget_.bytes > 0 ? bytes_of(of, shape) : static_cast<std::uint64_t>(member.weights) * bits;
  };
  if (!member.quantizer) {
    member.costs.push_back(cost(spec));
  } else {
    for (int bits = budget_.least; bits <= budget_.most; ++bits) {
      member.costs.push_back(cost(with_bits(spec, bits)));
    }
  }
  weights_ += member.weights;
  members_.push_back(std::move(member));
}

std::uint64_t BitsLearner::limit() const {
  if (budget_.bytes > 0) return budget_.bytes;
  if (budget_.bops > 0) {
    return static_cast<std::uint64_t>(std::max(0.0, static_cast<double>(budget_.bops) - std::ceil(rest_)));
  }
  const double bits = std::min(budget_.bits_per_weight * static_cast<double>(weights_), 1e18);
  const double whole = std::round(bits);  // 2.9 times 10 is 29
  return static_cast<std::uint64_t>(std::fabs(bits - whole) < 1e-6 ? whole : std::floor(bits));
}

double BitsLearner::in_unit(double cost) const {
  if (budget_.bits_per_weight == 0 || weights_ == 0) return cost;
  return cost / static_cast<double>(weights_);
}

std::string BitsLearner::amount_text(double cost) const {
  if (budget_.bops > 0) return plain_number(std::ceil(cost)) + "bops";
  if (budget_.bytes > 0) return plain_number(cost) + "B";
  return plain_number(std::ceil(in_unit(cost) * 1e4 - 1e-6) / 1e4) + "bpw";
}

std::uint64_t BitsLearner::least_cost() const {
  std::uint64_t least = 0;
  for (const Member& member : members_) least += member.costs.front();
  return least;
}

void BitsLearner::start() {
  const auto learned =
      std::ranges::count_if(members_, [](const Member& member) { return member.quantizer != nullptr; });
  const std::string goal = "learned_bits: " + to_string(std::optional(budget_));
  if (learned == 0) {
    throw Error(goal +
                ": no weight has a width that can be learned; expected signed integers with learned scales, "
                "for each channel or for the tensor, as in weights: int4:channel, without an accumulator and "
                "without a rule that gives `weights`");
  }
  if (least_cost() <= limit()) return;
  std::uint64_t fixed = 0;
  for (const Member& member : members_) fixed += member.quantizer ? 0 : member.costs.front();
  const auto cost = [&](std::uint64_t of) { return amount_text(static_cast<double>(of) + rest_); };
  throw Error(goal + " cannot be kept: with " + std::to_string(budget_.least) +
              " bits for every weight whose width is learned the network takes " + cost(least_cost()) +
              (fixed > 0
                   ? ", of which weights whose width is given take " + amount_text(static_cast<double>(fixed))
                   : "") +
              "; expected at least that");
}

double BitsLearner::slope() const {
  double sum = 0;
  for (const Member& member : members_) sum += member.slope();
  return sum;
}

double BitsLearner::excess() const {
  double cost = -static_cast<double>(limit());
  for (const Member& member : members_) {
    cost += static_cast<double>(member.costs.front());
    if (member.quantizer) cost += member.slope() * (member.quantizer->real_bits() - budget_.least);
  }
  return cost / slope();
}

at::Tensor BitsLearner::penalty() const {
  const double all = slope();
  if (is_fixed() || all == 0) return {};
  double pressure = 0;
  for (const Member& member : members_) {
    if (member.quantizer) pressure += member.quantizer->pressure();
  }
  const double over = excess(), price = pressure * std::max(0.0, multiplier_.item<double>() + over);
  at::Tensor sum;
  for (const Member& member : members_) {
    if (!member.quantizer) continue;
    const at::Tensor& bits = member.quantizer->bits();
    const at::Tensor part = (bits - bits.detach()) * (price * member.slope() / all);
    sum = sum.defined() ? sum + part : part;
  }
  return (sum + price * over).squeeze();
}

void BitsLearner::advance(double progress) {
  if (is_fixed()) return;
  for (const Member& member : members_) {
    if (member.quantizer) member.quantizer->clamp();
  }
  if (progress >= kShare) return fix();
  const double last = progress_.item<double>();
  if (progress <= last || slope() == 0) return;
  multiplier_.fill_(
      std::max(0.0, multiplier_.item<double>() + kAscent * excess() * (progress - last) / kShare));
  progress_.fill_(progress);
}

void BitsLearner::fix() {
  std::vector<std::vector<AssignmentOption>> items;
  for (const Member& member : members_) {
    std::vector<AssignmentOption> options;
    for (std::size_t i = 0; i < member.costs.size(); ++i) {
      const double bits = budget_.least + static_cast<double>(i);
      const double below = member.quantizer ? member.quantizer->real_bits() - bits : 0;
      options.push_back(
          {.cost = member.costs[i], .loss = std::max(member.slope(), 1.0) * std::pow(kGain, below)});
    }
    items.push_back(std::move(options));
  }
  const auto found = assign(items, limit());
  if (!found)
    throw Error("learned_bits: the least widths pass the budget");  // cannot be: start() checked them
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].quantizer) members_[i].quantizer->fix(budget_.least + static_cast<int>(found->choice[i]));
  }
}

bool BitsLearner::is_fixed() const {
  return std::ranges::all_of(
      members_, [](const Member& member) { return !member.quantizer || member.quantizer->is_fixed(); });
}

std::vector<at::Tensor> BitsLearner::parameters_of_bits() const {
  std::vector<at::Tensor> found;
  for (const Member& member : members_) {
    if (member.quantizer) found.push_back(member.quantizer->bits());
  }
  return found;
}

LearnedWidths BitsLearner::report() const {
  LearnedWidths report{.budget = to_string(std::optional(budget_)),
                       .unit = budget_.bops > 0    ? "bops"
                               : budget_.bytes > 0 ? "bytes"
                                                   : "bpw",
                       .limit = budget_.bops > 0    ? static_cast<double>(budget_.bops)
                                : budget_.bytes > 0 ? static_cast<double>(budget_.bytes)
                                                    : budget_.bits_per_weight,
                       .used = rest_,
                       .is_fixed = is_fixed(),
                       .layers = {}};
  for (const Member& member : members_) {
    LayerWidth layer{.name = member.name, .weights = member.weights, .bits = member.bits, .learned = {}};
    std::size_t index = 0;
    if (member.quantizer) {
      layer.bits = member.quantizer->width();
      layer.learned = member.quantizer->real_bits();
      index = static_cast<std::size_t>(layer.bits - budget_.least);
    }
    report.used += static_cast<double>(member.costs[index]);
    report.layers.push_back(std::move(layer));
  }
  report.used = in_unit(report.used);
  return report;
}

std::shared_ptr<BitsLearner> make_bits_learner(const Recipe& recipe, const graph::QuantPlan& plan) {
  if (recipe.learned_bits) return std::make_shared<BitsLearner>(*recipe.learned_bits);
  if (std::ranges::any_of(plan.constants, &graph::PlannedConstant::learned_bits)) {
    throw usage_error(
        "a rule says learned_bits: true, but the recipe has no budget for all weights, as in learned_bits: "
        "3.5bpw");
  }
  return nullptr;
}

}  // namespace crumb::qat
