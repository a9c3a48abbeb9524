#include "qat/network.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/input-archive.h>
#include <torch/utils.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "analysis/accumulator/check.h"
#include "base/files/text.h"
#include "graph/adapters.h"
#include "graph/edit.h"
#include "graph/passes/passes.h"
#include "graph/quantize/apply.h"
#include "graph/quantize/calibrate.h"
#include "libtorch/engine.h"
#include "qat/activations/batch_norm_estimate.h"
#include "qat/load_parameters.h"
#include "qat/network_state.h"
#include "qat/recipe_faults.h"
#include "quant/codes/spacings.h"

namespace crumb::qat {
namespace {

using libtorch::TypedTensor;

/// Registers the parameters of one module with another, under the same names, and buffers whose names are
/// free.
void adopt(torch::nn::Module& into, torch::nn::Module& from) {
  for (const auto& own : from.named_parameters(false)) into.register_parameter(own.key(), own.value());
  for (const auto& own : from.named_buffers(false)) {
    if (!into.named_buffers(false).contains(own.key())) into.register_buffer(own.key(), own.value());
  }
  for (const auto& child : from.named_children()) {
    const auto children = into.named_children();
    if (const auto* present = children.find(child.key())) {
      adopt(**present, *child.value());
    } else {
      into.register_module(child.key(), child.value());
    }
  }
}

}  // namespace

Network::Network(Graph graph, const Recipe& recipe, const NetworkOptions& options)
    : torch::nn::Module("network"), state_(std::make_unique<State>()) {
  State& state = *state_;
  state.options = options;
  refuse_stages(recipe);
  graph = graph::remove_identities(graph::plain_constants(graph::unroll_recurrent(std::move(graph))));
  state.float_graph = graph::prepare(graph, recipe, &libtorch::engine());
  state.derived.emplace(graph, state.float_graph);
  state.begin_pass();
  for (graph::Node& node : state.float_graph.nodes) {
    if (node.name.empty()) node.name = state.float_graph.unused_node_name(node.op);
  }
  state.plan = graph::plan_quantizers(state.float_graph, recipe);
  state.module =
      std::make_shared<libtorch::GraphModule>(with_edge_quantizers(state.float_graph, state.plan),
                                              libtorch::GraphModuleOptions{.given = state.derived->names()});
  adopt(*this, *state.module);
  if (state.derived->module()) adopt(*this, *state.derived->module());
  state.quantizers = std::make_shared<torch::nn::Module>("quantizers");
  state.shared.emplace(recipe, state.plan, state.quantizers);
  state.add_edges();
  state.add_cache();
  state.add_weights();
  register_module("quantizers", state.quantizers);
}

Network::~Network() = default;

const libtorch::GraphModule& Network::graph_module() const { return *state_->module; }

std::map<std::string, TypedTensor> Network::constants_of_now() {
  if (!state_->is_calibrated)
    throw Error("the ranges of activations are not known: calibrate the network first");
  state_->begin_pass();
  return state_->quantized_constants(!is_training());
}

std::vector<at::Tensor> Network::forward(const std::vector<at::Tensor>& inputs) {
  return libtorch::tensors_of(state_->module->run(libtorch::typed_all(inputs), {}, constants_of_now()));
}

at::Tensor Network::forward(const at::Tensor& input) { return forward(std::vector<at::Tensor>{input}).at(0); }

std::vector<at::Tensor> Network::forward_float(const std::vector<at::Tensor>& inputs) {
  state_->is_float = true;
  try {
    state_->begin_pass();
    auto outputs = libtorch::tensors_of(
        state_->module->run(libtorch::typed_all(inputs), {}, state_->float_constants(!is_training())));
    state_->is_float = false;
    return outputs;
  } catch (...) {
    state_->is_float = false;
    throw;
  }
}

void Network::calibrate(const std::vector<std::vector<at::Tensor>>& batches) {
  State& state = *state_;
  {
    const torch::NoGradGuard no_gradients;
    state.begin_pass();
  }
  if (state.plan.needs_calibration()) {
    if (batches.empty()) throw Error("calibrating needs samples, found none");
    const auto each = [&](const std::function<void(const std::vector<graph::Tensor>&)>& visit) {
      for (const std::vector<at::Tensor>& batch : batches) {
        std::vector<graph::Tensor> inputs;
        for (const TypedTensor& input : libtorch::typed_all(batch))
          inputs.push_back(libtorch::to_constant(input));
        visit(inputs);
      }
    };
    QuantPlan found = state.plan;
    graph::calibrate(state.graph_of_now(), libtorch::engine(), each, found);
    if (found.edges.size() != state.plan.edges.size())
      throw Error("training needs samples that take every branch: " + found.notes.back());
    state.edges->set(found.edges);
  }
  for (NetworkWeight& weight : state.weights) {
    if (weight.constrained && weight.layer->edge) {
      weight.constrained->set_input(*code_range(state.plan.edges[*weight.layer->edge].spec,
                                                state.edges->zero_point(*weight.layer->edge)));
    }
    state.start_weight(weight);
  }
  state.is_calibrated = true;
}

void Network::begin_with(std::map<std::string, graph::QuantizedConstant> codes) {
  for (const auto& [name, constant] : codes) {
    if (graph::is_of_adapter(name) || !state_->float_graph.initializers.contains(name)) continue;
    const auto planned = std::ranges::find(state_->plan.constants, name, &graph::PlannedConstant::value);
    const bool is_planned = planned != state_->plan.constants.end() && planned->spec;
    QuantSpec spec = QuantSpec::parse(constant.tensor->spec);
    if (is_planned) spec.search = planned->spec->search;
    if (!is_planned || spec.to_string() != planned->spec->to_string() ||
        constant.axes != graph::tensor_axes(constant.axes.size(), planned->axes.output))
      throw Error(quote_text(name) + " begins with codes of " + constant.tensor->spec +
                  ", and the recipe says " + (is_planned ? planned->spec->to_string() : "keep"));
  }
  for (const NetworkWeight& weight : state_->weights)
    if (const auto found = codes.find(weight.name); found != codes.end())
      weight.quantizer->take_scales(*found->second.tensor);
  state_->first_codes = std::move(codes);
}

void Network::fix_codes() {
  State& state = *state_;
  std::vector<std::string> faults;
  const torch::NoGradGuard no_gradients;
  state.begin_pass();
  for (NetworkWeight& weight : state.weights)
    if (!weight.quantizer->fix_codes(state.rows_of(weight)))
      faults.push_back(quote_text(weight.name) + " has no scales that learn; codes cannot stay as they are");
  throw_if_any(faults);
  state.has_fixed_codes = true;
}

std::vector<Network::Rounded> Network::rounded_weights() const {
  State& state = *state_;
  const torch::AutoGradMode with_gradients(true);
  state.begin_pass();
  std::vector<Rounded> all;
  // The gradient of `moves`, which is 1, tells which element of a parameter an element of a weight is.
  const auto add = [&](const at::Tensor& value, const at::Tensor& steps, const at::Tensor& parameter) {
    const auto moved = [&](const at::Tensor& what) {
      return torch::autograd::grad({(value * what).sum()}, {parameter}, {}, true)[0];
    };
    const at::Tensor ones = moved(at::ones_like(steps));
    if (!(ones == 0).logical_or(ones == 1).all().item<bool>()) return;
    const auto found =
        std::ranges::find_if(all, [&](const Rounded& one) { return one.weight.is_same(parameter); });
    if (found == all.end())
      all.push_back({parameter, moved(steps)});
    else
      found->steps += moved(steps);
  };
  for (const NetworkWeight& weight : state.weights) {
    const at::Tensor value = state.parameter(weight.name), rows = state.rows_of(weight).detach();
    const std::vector<float> found = spacings(weight.quantizer->freeze(rows));
    const at::Tensor steps = at::tensor(found).view(rows.sizes()).to(rows.device()).permute(weight.to_value);
    if (value.is_leaf()) {
      add(value, steps, value);
      continue;
    }
    const std::set<std::string>& sources = state.derived->sources_of(weight.name);
    if (sources.size() == 1) add(value, steps, state.derived->module()->constant(*sources.begin()));
  }
  return all;
}

void Network::set_active(ActiveQuantizers active) { state_->active = active; }

void Network::reestimate_batch_norm(const std::vector<std::vector<at::Tensor>>& batches) {
  if (batches.empty()) throw Error("estimating batch norms needs samples, found none");
  const torch::NoGradGuard no_gradients;
  State& state = *state_;
  state.begin_pass();
  estimate_batch_norms(*state.module, batches, state.quantized_constants(true));
}

at::Tensor Network::penalty() const { return state_->shared->penalty(state_->options.penalty_weight); }

void Network::advance(double progress) {
  if (!state_->is_calibrated)
    throw Error("training begins with calibrated quantizers: calibrate the network first");
  state_->shared->advance(progress);
}

void Network::prune(double progress) {
  if (!state_->is_calibrated)
    throw Error("pruning begins with the weights of training: calibrate the network first");
  state_->shared->prune(progress);
}

std::vector<PrunedLayer> Network::pruned() const { return state_->shared->pruned(); }

std::optional<LearnedWidths> Network::learned_widths() const { return state_->shared->learned_widths(); }

std::vector<torch::optim::OptimizerParamGroup> Network::parameter_groups(const Rates& rates) const {
  std::vector<at::Tensor> decayed, others;
  for (const auto& parameter : named_parameters()) {
    if (parameter.key().starts_with("quantizers.")) continue;
    const auto is_it = [&](const std::string& value) { return state_->is_made_of(value, parameter.value()); };
    const bool is_quantized = std::ranges::any_of(state_->weights, is_it, &NetworkWeight::name);
    if (is_quantized && state_->has_fixed_codes) continue;
    const bool is_weight = is_quantized || std::ranges::any_of(state_->shared->pruned_names(), is_it);
    (is_weight ? decayed : others).push_back(parameter.value());
  }
  return state_->shared->parameter_groups(std::move(decayed), std::move(others), {}, rates);
}

Graph Network::freeze() {
  State& state = *state_;
  if (!state.is_calibrated)
    throw Error("the ranges of activations are not known: calibrate the network first");
  state.shared->throw_while_widths_are_learned();
  const torch::NoGradGuard no_gradients;
  state.begin_pass();
  Graph graph = state.graph_of_now();
  for (NetworkWeight& weight : state.weights) {
    const at::Tensor rows = state.rows_of(weight);
    state.set_bias(weight, rows);
    graph::set_codes(
        graph, weight.name,
        {std::make_shared<const QuantizedTensor>(weight.quantizer->freeze(rows)), weight.to_value});
  }
  QuantPlan plan = state.plan_of_now();
  for (graph::PlannedConstant& constant : plan.constants) constant.spec.reset();
  return state.certified_by_goals(graph::apply(std::move(graph), plan));
}

std::vector<LayerAccumulator> Network::accumulators() {
  State& state = *state_;
  const torch::NoGradGuard no_gradients;
  const bool can_freeze = state.is_calibrated && !state.shared->learns_widths();
  const auto report = can_freeze ? analysis::check_accumulators(freeze()) : analysis::AccumulatorReport{};
  std::vector<LayerAccumulator> found;
  for (NetworkWeight& weight : state.weights) {
    if (!weight.layer) continue;
    LayerAccumulator one{.name = weight.name};
    const std::string& node = state.float_graph.nodes[weight.layer->node].name;
    const auto row = std::ranges::find(report.layers, node, &analysis::AccumulatorRow::name);
    if (row != report.layers.end()) one.bits_needed = row->bits_needed.value_or(0);
    if (weight.constrained) {
      one.bits = weight.constrained->constraint().goal.bits;
      one.repaired = weight.constrained->repaired();
    }
    found.push_back(one);
  }
  return found;
}

void Network::load(torch::serialize::InputArchive& archive) {
  const bool has_quantizers = load_parameters(*this, archive);
  if (has_quantizers) state_->is_calibrated = true;
}

}  // namespace crumb::qat
