#include "jobs/evaluate/layers/layered_network.h"

#include <algorithm>

#include "export/qcdq/from_qcdq.h"
#include "graph/facts/constant_values.h"
#include "graph/facts/lift_quantized.h"
#include "graph/fresh_names.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/operator_traits.h"
#include "graph/passes/passes.h"
#include "graph/passes/to_float32.h"
#include "graph/qonnx/quantized_constants.h"
#include "quant/quant_spec.h"

namespace crumb::jobs {
namespace {

using graph::Graph;
using graph::Node;
using graph::Tensor;

/// Whether the node takes or gives integers in place of floats, as files for onnxruntime do.
bool is_of_integers(const Node& node) {
  const std::span<const graph::ProductRule> rules = graph::traits_of(node).products;
  return node.is("QuantizeLinear") || node.is("DequantizeLinear") || node.is("DynamicQuantizeLinear") ||
         (!rules.empty() && rules[0].integers);
}

Graph in_qonnx(Graph graph) {
  graph = graph::plain_constants(graph::sorted(std::move(graph)));
  if (std::ranges::any_of(graph.nodes, is_of_integers)) graph = exporting::from_qcdq(std::move(graph));
  return graph::to_float32(std::move(graph), graph::Ends::kKept);
}

Graph with_names(Graph graph) {
  graph::FreshNames names;
  for (Node& node : graph.nodes) {
    const std::string made = node.outputs.empty() ? "" : node.outputs[0];
    node.name = names.unlike(!node.name.empty() ? node.name : !made.empty() ? made : node.op);
  }
  return graph;
}

/// The value, and what stands in front of it down to a constant that no node makes.
std::vector<std::string> names_down_from(const Graph& graph, const graph::Links& links, std::string value) {
  std::vector<std::string> names{value};
  for (std::size_t maker = links.producer(value); maker != graph::Links::kNone;
       maker = links.producer(value)) {
    const Node& node = graph.nodes[maker];
    if (node.inputs.empty()) break;
    value = node.inputs[0];
    names.push_back(value);
  }
  return names;
}

bool is_float(const Graph& graph, const std::string& value) {
  const graph::Value* known = graph.find(value);
  return !known || known->type == graph::ElementType::kUnknown || graph::is_float(known->type);
}

std::optional<double> number_of(const LayeredNetwork& network, const std::string& constant) {
  const auto value = network.values_of(constant);
  return value && value->size() == 1 ? std::optional<double>(value->to_floats()[0]) : std::nullopt;
}

std::string whole_text(std::optional<double> number) {
  return number && *number == static_cast<int>(*number) ? std::to_string(static_cast<int>(*number)) : "?";
}

}  // namespace

LayeredNetwork::LayeredNetwork(Graph graph)
    : graph_(in_qonnx(std::move(graph))), links_(graph_), constants_(graph_) {
  const Graph before = graph_;
  graph_ = with_names(graph::infer_shapes(graph::lift_quantized(std::move(graph_))));
  links_ = graph::Links(graph_);
  constants_ = graph::Constants(graph_);
  find_layers(before);
}

void LayeredNetwork::find_layers(const Graph& before) {
  const graph::Links links(before);
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    const bool is_constant = std::ranges::all_of(
        node.outputs, [&](const std::string& made) { return made.empty() || constants_.contains(made); });
    const std::vector<graph::WeightInput> inputs = graph::weight_inputs(graph_, node, constants_);
    if (is_constant || inputs.empty()) continue;
    NetworkLayer layer{.node = i, .weights = {}, .data = {}};
    for (const graph::WeightInput& input : inputs)
      layer.weights.push_back({.at = input,
                               .value = node.inputs[input.input],
                               .names = names_down_from(before, links, node.inputs[input.input])});
    const std::size_t data = inputs[0].input == 0 ? 1 : 0;
    if (!inputs[0].is_embedding && node.has_input(data) && is_float(graph_, node.inputs[data]))
      layer.data = data;
    layers_.push_back(std::move(layer));
  }
}

bool LayeredNetwork::is_quantized(const std::string& constant) const {
  if (graph_.quantized.contains(constant)) return true;
  for (std::size_t maker = links_.producer(constant); maker != graph::Links::kNone;) {
    const Node& node = graph_.nodes[maker];
    if (graph::is_quantizer(node)) return true;
    if (node.inputs.empty()) return false;
    maker = links_.producer(node.inputs[0]);
  }
  return false;
}

std::optional<Tensor> LayeredNetwork::values_of(const std::string& constant) const {
  if (const Tensor* tensor = graph_.constant(constant))
    return Tensor::floats(tensor->shape(), tensor->to_floats());
  if (const auto found = graph_.quantized.find(constant); found != graph_.quantized.end())
    return found->second.value();
  const Graph lowered = graph::fold_quantized(graph_);
  const auto value = graph::ConstantValues(lowered).find(constant);
  if (!value) return {};
  return Tensor::floats(value->shape, std::vector<float>(value->values.begin(), value->values.end()));
}

std::vector<std::size_t> LayeredNetwork::quantizers_before(const std::string& value) const {
  const std::size_t maker = links_.producer(value);
  if (maker == graph::Links::kNone || constants_.contains(value)) return {};
  const Node& node = graph_.nodes[maker];
  if (graph::is_quantizer(node)) return {maker};
  if (!node.is("Concat"))
    return graph::moves_elements(graph_, node) ? quantizers_before(node.inputs[0])
                                               : std::vector<std::size_t>();
  std::vector<std::size_t> found;
  for (const std::string& input : node.inputs)
    for (const std::size_t one : quantizers_before(input))
      if (std::ranges::find(found, one) == found.end()) found.push_back(one);
  return found;
}

std::string format_of_constant(const LayeredNetwork& network, const std::string& constant) {
  const auto found = network.graph().quantized.find(constant);
  if (found == network.graph().quantized.end())
    return network.is_quantized(constant) ? "quantized" : "float32";
  const std::string& spec = found->second.tensor->spec;
  const std::size_t first = spec.find(':');
  if (first == std::string::npos || spec.starts_with("gguf:")) return spec;
  const std::string rest = spec.substr(first + 1);
  const bool is_granularity = rest.starts_with("tensor") || rest.starts_with("channel") ||
                              rest.starts_with("group=") || rest.starts_with("block=");
  return spec.substr(0, first) + (is_granularity ? ":" + rest.substr(0, rest.find(':')) : "");
}

std::string format_of_quantizer(const LayeredNetwork& network, const Node& quantizer) {
  std::string text = "binary";
  if (quantizer.op == "FloatQuant")
    text = "e" + whole_text(number_of(network, quantizer.inputs.at(2))) + "m" +
           whole_text(number_of(network, quantizer.inputs.at(3)));
  else if (quantizer.op != "BipolarQuant")
    text = (quantizer.int_or("signed", 1) != 0 ? "int" : "uint") +
           whole_text(number_of(network, quantizer.inputs.at(3)));
  const std::string& scale = quantizer.inputs.at(1);
  if (!network.constants().contains(scale)) return text + ":token";
  const auto values = network.values_of(scale);
  return values && values->size() > 1 ? text + ":channel" : text;
}

}  // namespace crumb::jobs
