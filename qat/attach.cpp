#include "qat/attach.h"

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/utils.h>

#include <algorithm>
#include <map>

#include "base/files/text.h"
#include "graph/edit.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/passes/passes.h"
#include "graph/quantize/plan.h"
#include "libtorch/execute/typed_tensor.h"
#include "qat/activations/activation_quantizer.h"
#include "qat/certify.h"
#include "qat/layers.h"
#include "qat/recipe_faults.h"
#include "qat/weights/trained_weights.h"
#include "qat/weights/weight_slots.h"

namespace crumb::qat {
namespace {

using graph::Graph;

constexpr std::int64_t kOpset = 13;

/// Returns a graph with one node for each weight, named after its layer, so that rules and their messages are
/// those of graphs.
Graph skeleton_of(const std::vector<WeightSlot>& slots) {
  Graph graph;
  graph.opsets[std::string(graph::kOnnxDomain)] = kOpset;
  for (const WeightSlot& slot : slots) {
    const std::string data = slot.name + "/input", made = slot.name + "/output";
    graph.inputs.push_back(data);
    graph.values[data] = {.type =
                              slot.op == "Gather" ? graph::ElementType::kInt64 : graph::ElementType::kFloat};
    graph.initializers.emplace(slot.name,
                               libtorch::to_constant({slot.latent.detach(), graph::ElementType::kFloat}));
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

}  // namespace

struct HookedWeight : TrainedWeight {
  WeightSlot slot;
  at::Tensor now;  ///< the tensor that the module reads within a step
};

Step::~Step() {
  for (const auto& undo : undo_) undo();
}

struct Hooks::State {
  torch::nn::Module* module = nullptr;
  NetworkOptions options;
  std::shared_ptr<torch::nn::Module> quantizers = std::make_shared<torch::nn::Module>("quantizers");
  std::optional<TrainedWeights> shared;
  std::vector<HookedWeight> weights;

  at::Tensor rows(const HookedWeight& weight) const { return shared->rows(weight, weight.slot.latent); }
  std::optional<AccumulatorConstraint> constraint_of(const WeightSlot& slot,
                                                     const graph::PlannedConstant& planned,
                                                     const Recipe& recipe, bool is_end) const;
};

std::optional<AccumulatorConstraint> Hooks::State::constraint_of(const WeightSlot& slot,
                                                                 const graph::PlannedConstant& planned,
                                                                 const Recipe& recipe, bool is_end) const {
  if (!planned.spec || !planned.accumulator || (is_end && !options.all_layers)) return std::nullopt;
  const auto range = recipe.activations ? code_range(*recipe.activations, 0) : std::nullopt;
  if (!range) {
    throw Error(quote_text(slot.name) + " is to keep an accumulator of " +
                std::to_string(planned.accumulator->bits) +
                " bits: say by `activations` what integers its input is quantized to, as in uint4:tensor");
  }
  AccumulatorConstraint constraint{.goal = *planned.accumulator, .input = *range};
  if (slot.groups > 1 && slot.latent.size(1) == 1) constraint.goal.method = AccumulatorGoal::Method::kA2q;
  return constraint;
}

Hooks::Hooks(torch::nn::Module& module, const Recipe& recipe, const NetworkOptions& options)
    : state_(std::make_unique<State>()) {
  state_->module = &module;
  state_->options = options;
  const std::vector<WeightSlot> slots = weight_slots(module);
  refuse_stages(recipe);
  Recipe of_weights = recipe;  // edges are the module's own concern
  of_weights.activations.reset();
  of_weights.inputs.reset();
  of_weights.bias_bits = 0;
  const graph::QuantPlan plan = graph::plan_quantizers(skeleton_of(slots), of_weights);
  std::vector<std::string> layers;
  for (const WeightSlot& slot : slots) {
    if (slot.op != "Gather" && (layers.empty() || layers.back() != slot.layer)) layers.push_back(slot.layer);
  }
  state_->shared.emplace(recipe, plan, state_->quantizers);
  if (state_->shared->counts_bops()) {
    throw Error("learned_bits: " + to_string(recipe.learned_bits) +
                " counts bit operations, which a module's weights alone do not tell: give bits per weight or "
                "bytes, or capture the module and train it as qat::Network");
  }
  std::vector<std::string> faults;
  for (const WeightSlot& slot : slots) {
    const auto planned = std::ranges::find(plan.constants, slot.name, &graph::PlannedConstant::value);
    if (planned == plan.constants.end() || (!planned->spec && !planned->prune)) continue;
    const bool is_end = !layers.empty() && (slot.layer == layers.front() || slot.layer == layers.back());
    try {
      const auto constraint = state_->constraint_of(slot, *planned, recipe, is_end);
      state_->weights.push_back(
          {state_->shared->add(*planned, slot.latent, static_cast<std::size_t>(slot.output_axis), constraint),
           slot,
           {}});
    } catch (const Error& error) {
      faults.push_back(error.what());
    }
  }
  throw_if_any(faults);
  state_->shared->finish();
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
            : state_->shared->masked(weight.name, weight.slot.latent);
    weight.slot.put(made);
    weight.now = made;
    undo.push_back([&weight] {
      weight.slot.put(weight.slot.latent);
      weight.now.reset();
    });
  }
  return Step(std::move(undo));
}

void Hooks::prune(double progress) { state_->shared->prune(progress); }

void Hooks::advance(double progress) { state_->shared->advance(progress); }

std::optional<LearnedWidths> Hooks::learned_widths() const { return state_->shared->learned_widths(); }

std::vector<PrunedLayer> Hooks::pruned() const { return state_->shared->pruned(); }

at::Tensor Hooks::penalty() const { return state_->shared->penalty(state_->options.penalty_weight); }

std::vector<torch::optim::OptimizerParamGroup> Hooks::parameter_groups(const Rates& rates) const {
  std::vector<at::Tensor> weights, others, scales;
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
  return state_->shared->parameter_groups(std::move(weights), std::move(others), std::move(scales), rates);
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
    found.push_back({.name = weight.name,
                     .bits = weight.constrained->constraint().goal.bits,
                     .repaired = weight.constrained->repaired()});
  }
  return found;
}

Graph Hooks::freeze(const libtorch::Tensors& example, const libtorch::Forward& forward,
                    const libtorch::CaptureOptions& options) {
  state_->shared->throw_while_widths_are_learned();
  const torch::NoGradGuard no_gradients;
  for (const HookedWeight& weight : state_->weights) weight.slot.put(weight.slot.latent);
  // As cells of plain operators, the graph has the weights of recurrent layers as they are.
  Graph graph = graph::unroll_recurrent(libtorch::capture(*state_->module, example, forward, options));
  for (const HookedWeight& weight : state_->weights) {
    if (weight.now.defined()) weight.slot.put(weight.now);
  }
  std::map<std::string, AccumulatorGoal> constrained;
  for (HookedWeight& weight : state_->weights) {
    const auto found = graph.initializers.find(weight.name);
    if (found == graph.initializers.end()) {
      throw Error(
          "the weight " + quote_text(weight.name) +
          " is not in the module's graph as it is: the forward pass does not use it, or computes another "
          "from it (capture the module and train it as qat::Network)");
    }
    if (!weight.quantizer) {
      found->second = libtorch::to_constant(
          {state_->shared->masked(weight.name, weight.slot.latent), graph::ElementType::kFloat});
      continue;
    }
    graph::set_codes(graph, weight.name,
                     {std::make_shared<const QuantizedTensor>(weight.quantizer->freeze(state_->rows(weight))),
                      weight.to_value});
    if (weight.constrained) constrained[weight.name] = weight.constrained->constraint().goal;
  }
  return certified(graph::infer_shapes(std::move(graph)), constrained);
}

}  // namespace crumb::qat
