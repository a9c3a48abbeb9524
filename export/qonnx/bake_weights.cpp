#include "export/qonnx/bake_weights.h"

#include <algorithm>

#include "export/lint/subject.h"
#include "graph/facts/constant_values.h"
#include "graph/qonnx/quant_arithmetic.h"

namespace crumb::exporting {
namespace {

using graph::ConstantValue;
using graph::ConstantValues;

bool rounds_to_nearest(const Node& node) {
  return graph::find_quant_rounding(node.text_or("rounding_mode", "ROUND")) ==
         graph::QuantRounding::kHalfEven;
}

/// What the node would make of other data.
std::optional<ConstantValue> made_of(const Graph& graph, Node node, const Tensor& data) {
  Graph one{.opsets = graph.opsets};
  for (const std::string& input : node.inputs) {
    if (const Tensor* constant = graph.constant(input)) one.initializers.emplace(input, *constant);
  }
  one.initializers.insert_or_assign(node.inputs[0], data);
  const std::string output = node.outputs[0];
  one.nodes.push_back(std::move(node));
  return ConstantValues(one).find(output);
}

bool same(const ConstantValue& a, const ConstantValue& b) {
  return a.shape == b.shape && a.values == b.values && a.levels == b.levels;
}

}  // namespace

Graph bake_weights(Graph graph) {
  std::string refused;
  const ConstantValues constants(graph);  // nodes keep their places and outputs
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (!graph::is_quantizer(node) || !constant_input(graph, node, 0)) continue;
    const auto made = constants.find(node.outputs[0]);
    if (!made) continue;
    const std::vector<float> values(made->values.begin(), made->values.end());
    Tensor data = Tensor::floats(made->shape, values);
    Node rounding = node;
    if (node.op != "BipolarQuant") rounding.attributes["rounding_mode"] = std::string("ROUND");
    const auto again = made_of(graph, rounding, data);
    if (again && same(*made, *again)) {
      graph.nodes[i] = std::move(rounding);
      if (*constant_input(graph, graph.nodes[i], 0) != data) {
        give_constant(graph, graph.nodes[i], 0, std::move(data));
      }
    } else if (node.op != "BipolarQuant" && !rounds_to_nearest(node)) {
      refused += (refused.empty() ? "" : ", ") + text_of(node);
    }
  }
  if (!refused.empty()) {
    throw Error(
        "weights that are rounded otherwise than to nearest, and that rounding to nearest would change: " +
        refused);
  }
  graph::drop_unused(graph);
  return graph;
}

}  // namespace crumb::exporting
