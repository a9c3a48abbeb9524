#include "export/lint/subject.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/files/counted.h"
#include "graph/weighted_product.h"

namespace crumb::exporting {

const Node* Subject::producer(const std::string& value) const {
  const std::size_t at = links_.producer(value);
  return at == Links::kNone ? nullptr : &graph_.nodes[at];
}

const Node* Subject::source(const Node& node, std::size_t i) const {
  return node.has_input(i) ? producer(node.inputs[i]) : nullptr;
}

std::vector<const Node*> Subject::consumers(const Node& node) const {
  std::vector<const Node*> found;
  if (!node.has_output(0)) return found;
  for (const std::size_t i : links_.consumers(node.outputs[0])) {
    if (std::ranges::find(found, &graph_.nodes[i]) == found.end()) found.push_back(&graph_.nodes[i]);
  }
  return found;
}

bool is_quant(const Node& node) {
  return node.is("Quant", kQonnxDomain) || node.is("IntQuant", kQonnxDomain);
}
bool is_bipolar(const Node& node) { return node.is("BipolarQuant", kQonnxDomain); }
bool is_integer_quantizer(const Node& node) { return is_quant(node) || is_bipolar(node); }
bool is_qonnx_quantizer(const Node& node) {
  return graph::is_quantizer(node) || node.is("Trunc", kQonnxDomain);
}
bool is_thresholds(const Node& node) { return node.is("MultiThreshold", kQonnxDomain); }
bool convolves(const Node& node) {
  return graph::is_convolution(node) || node.is("Conv", kChannelsLastDomain);
}

const std::string& input_of(const Node& node, std::size_t i) {
  static const std::string kNone;
  return i < node.inputs.size() ? node.inputs[i] : kNone;
}

const std::string& output_of(const Node& node, std::size_t i) {
  static const std::string kNone;
  return i < node.outputs.size() ? node.outputs[i] : kNone;
}

bool is_weight(const Graph& graph, const Node& node) {
  return is_integer_quantizer(node) && constant_input(graph, node, kData) != nullptr;
}

std::optional<float> uniform(const Tensor* constant) {
  if (!constant || constant->size() == 0) return {};
  const graph::ElementKind kind = info(constant->type()).kind;
  if (kind == graph::ElementKind::kComplex || kind == graph::ElementKind::kNone) return {};
  const std::vector<float> values = constant->to_floats();
  if (!std::ranges::all_of(values, [&](float value) { return value == values[0]; })) return {};
  return values[0];
}

std::vector<std::int64_t> filled_up(std::vector<std::int64_t> shape, std::size_t rank) {
  if (shape.size() < rank) shape.insert(shape.begin(), rank - shape.size(), 1);
  return shape;
}

std::string number_text(double value) {
  const auto narrow = static_cast<float>(value);
  return value == narrow ? crumb::number_text(narrow) : crumb::number_text(value);
}

void give_constant(Graph& graph, Node& node, std::size_t i, Tensor tensor) {
  // The name is made first: add_constant may not see the node while it changes.
  std::string name = graph::add_constant(graph, node.inputs[i] + "_fixed", std::move(tensor));
  node.inputs[i] = std::move(name);
}

Graph for_each_node(Graph graph, const std::function<void(Graph&, std::size_t)>& change) {
  const std::size_t count = graph.nodes.size();
  for (std::size_t i = 0; i < count; ++i) change(graph, i);
  graph = sorted(std::move(graph));  // drop_unused goes backwards
  graph::drop_unused(graph);
  return graph;
}

}  // namespace crumb::exporting
