#include "qat/attach.h"

#include <torch/torch.h>

#include <algorithm>
#include <map>

#include "formats/io/text.h"
#include "models/graph/passes/passes.h"
#include "models/graph/quantize/plan.h"
#include "models/torch/execute/typed_tensor.h"
#include "qat/activation_quantizer.h"
#include "qat/certify.h"
#include "qat/child_name.h"
#include "qat/layers.h"
#include "qat/learned_bits.h"
#include "qat/pruner.h"
#include "qat/recipe_faults.h"
#include "qat/weight_quantizer.h"
#include "qat/weight_slots.h"

namespace crumb::qat {
namespace {

using graph::Graph;

constexpr std::int64_t kOpset = 13;

/// One node for each weight, named after its layer, so that rules and their messages are those of graphs.
Graph skeleton_of(const std::vector<WeightSlot>& slots) {
  Graph graph;
  graph.opsets[std::string(graph::kOnnxDomain)] = kOpset;
  for (const WeightSlot& slot : slots) {
    const std::string data = slot.name + "/input", made = slot.name + "/output";
    graph.inputs.push_back(data);
    graph.values[data] = {.type =
                              slot.op == "Gather" ? graph::ElementType::kInt64 : graph::ElementType::kFloat};
    graph.initializers.emplace(slot.name,
                               torch_ops::to_constant({slot.latent.detach(), graph::ElementType::kFloat}));
    graph::Node node{.name = slot.layer, .op = slot.op, .version = kOpset};
    node.inputs = slot.op == "Gather" ? std::vector{slot.name, data} : std::vector{data, slot.name};
    node.outputs = {made};
    if (slot.op == "Gemm") node.attributes["transB"] = std::int64_t{1};
    if (slot.groups > 1) node.attributes["group"] = slot.groups;
    graph.nodes.push_back(std::move(node));
    graph.outputs.push_back(made);
  }
  return graph;
}

struct HookedWeight {
  WeightSlot slot;
  std::vector<std::int64_t> to_rows, to_value;
  std::shared_ptr<WeightQuantizer> quantizer;  ///< null: it is pruned alone
  AccumulatorQuantizer* constrained = nullptr;
  at::Tensor now;  ///< what the module reads within a step
};

}  // namespace

Step::~Step() {
  for (const auto& undo : undo_) undo();
}

struct Hooks::State {
  torch::nn::Module* module = nullptr;
  NetworkOptions options;
  std::shared_ptr<torch::nn::Module> quantizers = std::make_shared<torch::nn::Module>("quantizers");
  std::vector<HookedWeight> weights;
  std::shared_ptr<Pruner> pruner = std::make_shared<Pruner>();
  std::shared_ptr<BitsLearner> bits;  ///< null: no width is learned

  at::Tensor masked(const HookedWeight& weight) const {
    return pruner->masked(weight.slot.name, weight.slot.latent);
  }
  at::Tensor rows(const HookedWeight& weight) const {
    return masked(weight).permute(weight.to_rows).contiguous();
  }
  void add(const WeightSlot& slot, const graph::PlannedConstant& planned, const Recipe& recipe, bool is_end,
           std::vector<std::string>& faults);
};

void Hooks::State::add(const WeightSlot& slot, const graph::PlannedConstant& planned, const Recipe& recipe,
                       bool is_end, std::vector<std::string>& faults) {
  try {
    HookedWeight weight{.slot = slot};
    weight.to_value = graph::axes_with_output(static_cast<std::size_t>(slot.latent.dim()),
                                              static_cast<std::size_t>(slot.output_axis));
    weight.to_rows = graph::inverse(weight.to_value);
    if (!planned.spec) {
      // Pruned alone.
    } else if (planned.accumulator && (!is_end || options.all_layers)) {
      const auto range = recipe.activations ? code_range(*recipe.activations, 0) : std::nullopt;
      if (!range) {
        throw Error(
            quote_text(slot.name) + " is to keep an accumulator of " +
            std::to_string(planned.accumulator->bits) +
            " bits: say by `activations` what integers its input is quantized to, as in uint4:tensor");
      }
      AccumulatorConstraint constraint{.goal = *planned.accumulator, .input = *range};
      if (slot.groups > 1 && slot.latent.size(1) == 1) constraint.goal.method = AccumulatorGoal::Method::kA2q;
      auto quantizer = std::make_shared<AccumulatorQuantizer>(*planned.spec, constraint, slot.name);
      weight.constrained = quantizer.get();
      weight.quantizer = std::move(quantizer);
    } else {
      if (bits) weight.quantizer = bits->quantizer_for(planned);
      if (!weight.quantizer)
        weight.quantizer = make_weight_quantizer(*planned.spec, planned.scales, slot.name);
    }
    if (bits && weight.quantizer)
      bits->add(slot.name, *planned.spec, rows(weight).sizes().vec(), weight.quantizer, 0);
    if (weight.quantizer) {
      quantizers->register_module(child_name(*quantizers, slot.name), weight.quantizer);
    }
    if (planned.prune) {
      at::Tensor first = rows(weight).detach().clone();
      if (weight.quantizer) weight.quantizer->start(first);  // parameters of the right shapes
      pruner->add({.name = slot.name,
                   .latent = slot.latent,
                   .to_rows = weight.to_rows,
                   .to_value = weight.to_value,
                   .quantizer = weight.quantizer},
                  *planned.prune, planned.spec);
    }
    weights.push_back(std::move(weight));
  } catch (const Error& error) {
    faults.push_back(error.what());
  }
}

Hooks::Hooks(torch::nn::Module& module, const Recipe& recipe, const NetworkOptions& options)
    : state_(std::make_unique<State>()) {
  state_->module = &module;
  state_->options = options;
  const std::vector<WeightSlot> slots = weight_slots(module);
  Recipe of_weights = recipe;  // edges are the module's own business
  of_weights.activations.reset();
  of_weights.inputs.reset();
  of_weights.bias_bits = 0;
  const graph::QuantPlan plan = graph::plan_quantizers(skeleton_of(slots), of_weights);
  std::vector<std::string> layers;
  for (const WeightSlot& slot : slots) {
    if (slot.op != "Gather" && (layers.empty() || layers.back() != slot.layer)) layers.push_back(slot.layer);
  }
  std::vector<std::string> faults;
  state_->bits = make_bits_learner(recipe, plan);
  if (recipe.learned_bits && recipe.learned_bits->bops > 0) {
    throw Error("learned_bits: " + to_string(recipe.learned_bits) +
                " counts bit operations, which a module's weights alone do not tell: give bits per weight or "
                "bytes, or "
                "capture the module and train it as qat::Network");
  }
  for (const WeightSlot& slot : slots) {
    const auto planned = std::ranges::find(plan.constants, slot.name, &graph::PlannedConstant::value);
    if (planned == plan.constants.end() || (!planned->spec && !planned->prune)) continue;
    const bool is_end = !layers.empty() && (slot.layer == layers.front() || slot.layer == layers.back());
    state_->add(slot, *planned, recipe, is_end, faults);
  }
  throw_if_any(faults);
  if (!state_->pruner->empty()) state_->quantizers->register_module("pruning", state_->pruner);
  if (state_->bits) {
    state_->bits->start();
    state_->quantizers->register_module("learned_bits", state_->bits);
  }
  start();
}

Hooks::Hooks(Hooks&&) noexcept = default;
Hooks::~Hooks() = default;

void Hooks::start() {
  const torch::NoGradGuard no_gradients;
  for (HookedWeight& weight : state_->weights) {
    if (!weight.quantizer) continue;
    at::Tensor rows = state_->rows(weight).detach().clone();
    weight.quantizer->start(rows);
    weight.slot.latent.copy_(rows.permute(weight.to_value));
  }
}

Step Hooks::step() {
  std::vector<std::function<void()>> undo;
  for (HookedWeight& weight : state_->weights) {
    const at::Tensor made =
        weight.quantizer
            ? weight.quantizer->quantized(state_->rows(weight)).permute(weight.to_value).contiguous()
            : state_->masked(weight);
    weight.slot.put(made);
    weight.now = made;
    undo.push_back([&weight] {
      weight.slot.put(weight.slot.latent);
      weight.now.reset();
    });
  }
  return Step(std::move(undo));
}

void Hooks::prune(double progress) { state_->pruner->prune(progress); }

void Hooks::advance(double progress) {
  state_->pruner->prune(progress);
  if (state_->bits) state_->bits->advance(progress);
}

std::optional<LearnedWidths> Hooks::learned_widths() const {
  if (!state_->bits) return std::nullopt;
  return state_->bits->report();
}

std::vector<PrunedLayer> Hooks::pruned() const { return state_->pruner->layers(); }

at::Tensor Hooks::penalty() const {
  at::Tensor sum = torch::zeros({});
  for (const HookedWeight& weight : state_->weights) {
    if (weight.constrained) sum = sum + weight.constrained->penalty();
  }
  sum = sum * state_->options.penalty_weight;
  const at::Tensor price = state_->bits ? state_->bits->penalty() : at::Tensor();
  return price.defined() ? sum + price : sum;
}

std::vector<torch::optim::OptimizerParamGroup> Hooks::parameter_groups(const Rates& rates) const {
  std::vector<at::Tensor> weights, others, scales = state_->quantizers->parameters();
  const auto is_in = [](const std::vector<at::Tensor>& all, const at::Tensor& one) {
    return std::ranges::any_of(all, [&](const at::Tensor& other) { return other.is_same(one); });
  };
  std::vector<at::Tensor> latents;
  for (const HookedWeight& weight : state_->weights) latents.push_back(weight.slot.latent);
  for (const auto& child : state_->module->modules(/*include_self=*/false)) {
    if (!child->as<ActivationQuantizer>()) continue;
    for (const at::Tensor& scale : child->parameters(/*recurse=*/false)) scales.push_back(scale);
  }
  for (const at::Tensor& parameter : state_->module->parameters()) {
    if (is_in(scales, parameter)) continue;
    (is_in(latents, parameter) ? weights : others).push_back(parameter);
  }
  const std::vector<at::Tensor> bits =
      state_->bits ? state_->bits->parameters_of_bits() : std::vector<at::Tensor>();
  std::erase_if(scales, [&](const at::Tensor& one) { return is_in(bits, one); });
  return grouped(std::move(weights), std::move(others), std::move(scales), rates, bits);
}

std::vector<at::Tensor> Hooks::parameters() const {
  std::vector<at::Tensor> all = state_->module->parameters();
  for (const at::Tensor& parameter : state_->quantizers->parameters()) all.push_back(parameter);
  return all;
}

const std::shared_ptr<torch::nn::Module>& Hooks::quantizers() const { return state_->quantizers; }

std::vector<LayerAccumulator> Hooks::accumulators() const {
  std::vector<LayerAccumulator> found;
  for (const HookedWeight& weight : state_->weights) {
    if (!weight.constrained) continue;
    found.push_back({.name = weight.slot.name,
                     .bits = weight.constrained->constraint().goal.bits,
                     .repaired = weight.constrained->repaired()});
  }
  return found;
}

Graph Hooks::freeze(const models::Tensors& example, const models::Forward& forward,
                    const models::CaptureOptions& options) {
  if (state_->bits && !state_->bits->is_fixed()) {
    throw Error(
        "widths are still being learned, and may be over their budget: advance(progress) fixes them when "
        "half "
        "of the training is done");
  }
  const torch::NoGradGuard no_gradients;
  for (const HookedWeight& weight : state_->weights) weight.slot.put(weight.slot.latent);
  // As cells, the weights of recurrent layers stand in the graph as they are.
  Graph graph = graph::unroll_recurrent(models::capture(*state_->module, example, forward, options));
  for (const HookedWeight& weight : state_->weights) {
    if (weight.now.defined()) weight.slot.put(weight.now);
  }
  std::map<std::string, ConstrainedWeight> constrained;
  for (HookedWeight& weight : state_->weights) {
    const auto found = graph.initializers.find(weight.slot.name);
    if (found == graph.initializers.end()) {
      throw Error(
          "the weight " + quote_text(weight.slot.name) +
          " is not in the module's graph as it is: the forward pass does not use it, or computes another "
          "from it (capture the module and train it as qat::Network)");
    }
    if (!weight.quantizer) {
      found->second = torch_ops::to_constant({state_->masked(weight), graph::ElementType::kFloat});
      continue;
    }
    graph.initializers.erase(found);
    graph.quantized[weight.slot.name] = {
        std::make_shared<const QuantizedTensor>(weight.quantizer->freeze(state_->rows(weight))),
        weight.to_value};
    if (weight.constrained) constrained[weight.slot.name] = {weight.constrained->constraint().goal};
  }
  return certified(graph::infer_shapes(std::move(graph)), constrained);
}

}  // namespace crumb::qat
