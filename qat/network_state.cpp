#include "qat/network_state.h"

#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/files/text.h"
#include "libtorch/engine.h"
#include "libtorch/execute/ops/straight_through.h"
#include "libtorch/fake_quantize.h"
#include "qat/certify.h"
#include "qat/recipe_faults.h"

namespace crumb::qat {

using libtorch::TypedTensor;

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
  // Zeros that stay need no magnitudes, and a computed weight gives its parameter no gradient there.
  const bool takes_more = constant.prune && constant.prune->share > 0;
  if (takes_more && !lies_in_a_parameter(constant.value)) {
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

namespace {

/// Constants as they will lie in the frozen graph, so that products add up in the same order. In training
/// they stay as the parameters lie: a product takes a transposed weight as it is, and gives back a gradient
/// that is transposed, too.
libtorch::Plan::Constants laid_out(libtorch::Plan::Constants constants, bool as_frozen) {
  if (as_frozen) {
    for (auto& [name, value] : constants) value.tensor = value.tensor.contiguous();
  }
  return constants;
}

}  // namespace

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
  // A projected weight goes back where it lies, also seen through a transpose; what is computed in other ways
  // (joined, scaled) stays as it is, and the bound holds by the quantizer alone.
  // What is behind a mask stays zero where it was.
  if (lies_in_a_parameter(weight.name))
    parameter(weight.name).copy_(shared->masked(weight.name, rows.permute(weight.to_value)));
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

}  // namespace crumb::qat
