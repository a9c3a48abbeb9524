#include "qat/network.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/input-archive.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
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
#include "libtorch/execute/graph_module.h"
#include "libtorch/execute/ops/straight_through.h"
#include "libtorch/fake_quantize.h"
#include "qat/activations/batch_norm_estimate.h"
#include "qat/activations/edge_quantizers.h"
#include "qat/certify.h"
#include "qat/derived_constants.h"
#include "qat/layers.h"
#include "qat/load_parameters.h"
#include "qat/recipe_faults.h"
#include "qat/weights/trained_weights.h"
#include "quant/codes/spacings.h"

namespace crumb::qat {
namespace {

using graph::Graph;
using graph::QuantPlan;
using libtorch::TypedTensor;

/// Parameters of one module become another's, by the same names, and buffers whose names are free.
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

struct NetworkWeight : TrainedWeight {
  std::optional<Layer> layer;  ///< what it meets in the graph; none: nothing adds up its products
};

/// A planned bias at scale_in * scale_weight, without gradients.
struct BiasOfNow {
  at::Tensor scale;  ///< for each element, of the bias's shape, or one number
  at::Tensor codes;  ///< float64, of the bias's shape
};

struct Network::State {
  Graph float_graph;
  QuantPlan plan;
  NetworkOptions options;
  std::optional<DerivedConstants> derived;
  libtorch::Plan::Constants derived_values;  ///< of this pass
  std::shared_ptr<libtorch::GraphModule> module;
  std::shared_ptr<torch::nn::Module> quantizers;
  std::optional<EdgeQuantizers> edges;
  std::optional<TrainedWeights> shared;
  std::vector<NetworkWeight> weights;  ///< that have quantizers
  std::map<std::string, graph::QuantizedConstant> first_codes;
  bool is_calibrated = false;
  bool has_fixed_codes = false;  ///< weights learn by their scales alone
  ActiveQuantizers active;
  bool is_float = false;  ///< for this pass, no quantizer works

  at::Tensor parameter(const std::string& value) const {
    const auto found = derived_values.find(value);
    return found != derived_values.end() ? found->second.tensor : module->constant(value);
  }
  at::Tensor masked(const std::string& value) const { return shared->masked(value, parameter(value)); }
  void begin_pass() { derived_values = derived->values(); }
  bool is_made_of(const std::string& value, const at::Tensor& tensor) const;
  bool lies_in_a_parameter(const std::string& value) const;

  /// The node that makes this value does so, while quantizers of activations work; else it passes its first input on.
  void quantize(const std::string& value, std::function<at::Tensor(const at::Tensor&)> by);
  void add_edges();
  void add_cache();
  void add_weights();
  void add_weight(const graph::PlannedConstant& constant, const Layer* layer);
  std::optional<AccumulatorConstraint> constraint_of(const graph::PlannedConstant& constant,
                                                     const Layer& layer) const;

  at::Tensor rows_of(const NetworkWeight& weight) const {
    return shared->rows(weight, parameter(weight.name));
  }
  void start_weight(NetworkWeight& weight);
  BiasOfNow bias_of(const NetworkWeight& weight, const at::Tensor& rows) const;
  void set_bias(const NetworkWeight& weight, const at::Tensor& rows) const;
  libtorch::Plan::Constants float_constants(bool as_frozen) const;
  libtorch::Plan::Constants quantized_constants(bool as_frozen);
  Graph graph_of_now() const;
  QuantPlan plan_of_now() const;
  Graph certified_by_goals(Graph graph) const;
};

void Network::State::quantize(const std::string& value, std::function<at::Tensor(const at::Tensor&)> by) {
  module->replace_maker(
      value, [this, by = std::move(by)](const graph::Node&, const std::vector<TypedTensor>& arguments) {
        const at::Tensor& values = arguments[0].tensor;
        const bool passes = is_float || !active.activations;
        return libtorch::Outputs{{passes ? values : by(values), arguments[0].type}};
      });
}

void Network::State::add_edges() {
  edges.emplace(plan.edges, *quantizers);
  const Graph& graph = module->graph();
  for (std::size_t i = 0; i < plan.edges.size(); ++i) {
    const auto node = std::ranges::find_if(graph.nodes, [&](const graph::Node& candidate) {
      return graph::is_quantizer(candidate) && candidate.inputs[0] == plan.edges[i].value;
    });
    quantize(node->outputs[0], [this, i](const at::Tensor& values) { return edges->quantized(i, values); });
  }
}

/// Quantizers of what a cache keeps: their scales follow from values, as those of dynamic edges.
void Network::State::add_cache() {
  if (!plan.kv_cache) return;
  QuantSpec spec = *plan.kv_cache;
  spec.granularity = Granularity::kToken;  // of groups: they lie along the last axis there
  spec.block_cols = 0;
  spec.rotate = false;
  for (const graph::Node& node : module->graph().nodes) {
    if (!graph::is_quantizer(node) || float_graph.find(node.inputs[0])) continue;
    quantize(node.outputs[0], [spec](const at::Tensor& values) { return fake_quantize(values, spec); });
  }
}

std::optional<AccumulatorConstraint> Network::State::constraint_of(const graph::PlannedConstant& constant,
                                                                   const Layer& layer) const {
  if (!constant.accumulator || (!options.all_layers && (layer.is_first || layer.is_last)))
    return std::nullopt;
  const std::string what = quote_text(constant.value) + " of " + constant.node;
  if (!layer.edge) {
    throw Error(what + " is to keep an accumulator of " + std::to_string(constant.accumulator->bits) +
                " bits, but what it multiplies has no quantizer (or several of different scales)");
  }
  const graph::PlannedEdge& edge = plan.edges[*layer.edge];
  const auto range = code_range(edge.spec, edges->zero_point(*layer.edge));
  if (!range) {
    throw Error(what + " is to keep an accumulator, but what it multiplies is quantized to " +
                edge.spec.to_string() + ", expected integers with a whole zero point");
  }
  AccumulatorConstraint constraint{.goal = *constant.accumulator, .input = *range};
  // Centring takes one of a depthwise filter's few dimensions (arXiv:2401.10432, section 5).
  if (layer.is_depthwise) constraint.goal.method = AccumulatorGoal::Method::kA2q;
  return constraint;
}

void Network::State::add_weight(const graph::PlannedConstant& constant, const Layer* layer) {
  if (constant.prune && !lies_in_a_parameter(constant.value)) {
    throw Error(quote_text(constant.value) + " of " + constant.node +
                " is to be pruned, but the network computes it from its parameters; prune: none for it");
  }
  const bool is_layer = layer && constant.spec;
  const at::Tensor latent = parameter(constant.value);
  const std::size_t axis =
      constant.axes.output < static_cast<std::size_t>(latent.dim()) ? constant.axes.output : 0;
  TrainedWeight weight =
      shared->add(constant, latent, axis, is_layer ? constraint_of(constant, *layer) : std::nullopt);
  if (!weight.quantizer) return;
  weights.push_back({std::move(weight), is_layer ? std::optional(*layer) : std::nullopt});
}

void Network::State::add_weights() {
  const std::vector<Layer> layers = layers_of(float_graph, plan);
  std::vector<std::string> faults;
  for (std::size_t i = 0; i < plan.constants.size(); ++i) {
    if (!plan.constants[i].spec && !plan.constants[i].prune) continue;
    const auto layer = std::ranges::find(layers, i, &Layer::constant);
    try {
      add_weight(plan.constants[i], layer == layers.end() ? nullptr : &*layer);
    } catch (const Error& error) {
      faults.push_back(error.what());
    }
  }
  throw_if_any(faults);
  std::set<std::string> names;
  for (const NetworkWeight& weight : weights) names.insert(weight.name);
  shared->finish(shared->counts_bops() ? bops_by_weight(module->graph(), names) : BopsByWeight{});
}

/// As graph::quantize_bias computes it when the graph is frozen.
BiasOfNow Network::State::bias_of(const NetworkWeight& weight, const at::Tensor& rows) const {
  const graph::PlannedBias& planned = plan.biases[*weight.layer->bias];
  const at::Tensor bias = parameter(planned.value).detach();
  at::Tensor scale =
      weight.quantizer->scales(rows.detach()).to(bias.device(), at::kFloat) * edges->scale(planned.edge);
  scale = scale.numel() == 1 ? scale.reshape({})
                             : scale.repeat({bias.numel() / scale.numel()}).view(bias.sizes());
  const double most = std::ldexp(1.0, planned.bits - 1);
  return {scale, (bias / scale).to(at::kDouble).round().clamp(-most, most - 1)};
}

/// The codes that start a constrained layer's sums.
void Network::State::set_bias(const NetworkWeight& weight, const at::Tensor& rows) const {
  if (!weight.constrained || !weight.layer->bias) return;
  const at::Tensor codes = bias_of(weight, rows).codes.to(at::kCPU, at::kLong).contiguous().view({-1});
  const std::int64_t* first = codes.const_data_ptr<std::int64_t>();
  weight.constrained->set_bias({first, first + codes.numel()});
}

/// Constants as they will lie in the frozen graph, so that products add up in the same order. In training they stay as
/// the parameters lie: a product takes a weight that is turned over as it is, and gives back a gradient that is, too.
libtorch::Plan::Constants laid_out(libtorch::Plan::Constants constants, bool as_frozen) {
  if (as_frozen) {
    for (auto& [name, value] : constants) value.tensor = value.tensor.contiguous();
  }
  return constants;
}

/// Without quantizers: what is computed from parameters, and what is pruned.
libtorch::Plan::Constants Network::State::float_constants(bool as_frozen) const {
  libtorch::Plan::Constants instead = derived_values;
  for (const std::string& name : shared->pruned_names())
    instead[name] = {masked(name), graph::ElementType::kFloat};
  return laid_out(std::move(instead), as_frozen);
}

libtorch::Plan::Constants Network::State::quantized_constants(bool as_frozen) {
  libtorch::Plan::Constants instead = float_constants(false);
  if (!active.weights) return laid_out(std::move(instead), as_frozen);
  for (NetworkWeight& weight : weights) {
    const at::Tensor rows = rows_of(weight);
    set_bias(weight, rows);
    const at::Tensor made = weight.quantizer->quantized(rows).permute(weight.to_value);
    instead[weight.name] = {made, graph::ElementType::kFloat};
    if (!weight.layer || !weight.layer->bias || !active.activations) continue;
    const std::string& value = plan.biases[*weight.layer->bias].value;
    const BiasOfNow bias = bias_of(weight, rows);
    instead[value] = {libtorch::straight_through(parameter(value), bias.codes.to(at::kFloat) * bias.scale),
                      graph::ElementType::kFloat};
  }
  return laid_out(std::move(instead), as_frozen);
}

/// The float graph with the parameters of now.
Graph Network::State::graph_of_now() const {
  Graph graph = float_graph;
  for (auto& [name, constant] : graph.initializers) {
    const at::Tensor now = masked(name);
    if (graph::is_float(constant.type())) constant = libtorch::to_constant({now.detach(), constant.type()});
  }
  return graph;
}

QuantPlan Network::State::plan_of_now() const {
  QuantPlan now = plan;
  for (std::size_t i = 0; i < now.edges.size(); ++i) {
    now.edges[i].scale = edges->scale(i);
    now.edges[i].zero_point = edges->zero_point(i);
  }
  return now;
}

void Network::State::start_weight(NetworkWeight& weight) {
  const torch::NoGradGuard no_gradients;
  at::Tensor rows = rows_of(weight).detach().clone();
  if (weight.constrained && weight.layer->bias) {
    // The bias' codes depend on the scales, which depend on the weights alone: twice, then.
    weight.constrained->set_bias({});
    at::Tensor first = rows.clone();
    weight.quantizer->start(first);
    set_bias(weight, rows);
  }
  weight.quantizer->start(rows);
  if (const auto found = first_codes.find(weight.name); found != first_codes.end())
    weight.quantizer->take_scales(*found->second.tensor);
  // A projected weight goes back where it lies, also seen through a transpose; what is computed in other ways (joined,
  // scaled) stays as it is, and the bound holds by the quantizer alone.
  if (lies_in_a_parameter(weight.name)) parameter(weight.name).copy_(rows.permute(weight.to_value));
}

/// Whether writing to parameter() changes a parameter.
bool Network::State::lies_in_a_parameter(const std::string& value) const {
  if (!derived->names().contains(value)) return true;
  return std::ranges::any_of(derived->sources_of(value), [&](const std::string& source) {
    return derived->module()->constant(source).is_alias_of(parameter(value));
  });
}

bool Network::State::is_made_of(const std::string& value, const at::Tensor& tensor) const {
  if (!derived->names().contains(value)) return module->constant(value).is_same(tensor);
  return std::ranges::any_of(derived->sources_of(value), [&](const std::string& source) {
    return derived->module()->constant(source).is_same(tensor);
  });
}

Graph Network::State::certified_by_goals(Graph graph) const {
  std::map<std::string, AccumulatorGoal> goals;
  for (const NetworkWeight& weight : weights) {
    if (weight.constrained) goals[weight.name] = weight.constrained->constraint().goal;
  }
  return certified(std::move(graph), goals);
}

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
  // Which element of a parameter an element of a weight is follows from the gradient, which of moves is 1.
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
