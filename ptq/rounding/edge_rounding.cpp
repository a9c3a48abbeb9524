#include "ptq/rounding/edge_rounding.h"

#include <vector>

#include "graph/quantize/apply.h"

namespace crumb::ptq {

using graph::Graph;
using graph::Node;
using graph::Tensor;

EdgeRounding::EdgeRounding(const Graph& graph, const graph::PlannedEdge& edge, const graph::Engine& engine) {
  Graph quantizer;
  quantizer.opsets = graph.opsets;
  quantizer.inputs = {edge.value};
  quantizer.values[edge.value] = {.type = graph::ElementType::kFloat, .shape = {}, .annotations = {}};
  std::vector<Node> nodes = graph::activation_quantizer(quantizer, edge, edge.value);
  const std::string made = edge.value + "_rounded";
  nodes.back().inputs[0] = edge.value;
  nodes.back().outputs = {made};
  for (Node& node : nodes) {
    if (node.name.empty()) node.name = made;
    quantizer.nodes.push_back(std::move(node));
  }
  quantizer.outputs = {made};
  quantizer.values[made] = quantizer.values[edge.value];
  quantizer_ = engine.prepare(std::move(quantizer));
}

Tensor EdgeRounding::error(const Tensor& value) const {
  const std::vector<float> before = value.to_floats();
  std::vector<float> after = quantizer_->run({value}).at(0).to_floats();
  for (std::size_t i = 0; i < after.size(); ++i) after[i] -= before[i];
  return Tensor::floats(value.shape(), after);
}

}  // namespace crumb::ptq
