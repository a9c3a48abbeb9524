#include "runtime/packed_weights.h"

#include <algorithm>
#include <map>

#include "graph/weighted_product.h"
#include "runtime/operator.h"
#include "runtime/ops/held_matrix.h"

namespace crumb::runtime {
namespace {

using graph::Node;
using graph::QuantizedConstant;

/// Whether the node's kernel computes on the codes of its input `input`.
bool keeps_codes(const Node& node, std::size_t input, const QuantizedConstant& constant) {
  const OperatorRow* const row = find_operator(node.op, node.domain);
  if (!row || row->holds != input) return false;
  const auto product = graph::weighted_product(node, constant.axes.size(), input);
  if (!product) return gathers_codes(node, constant);
  return HeldMatrix::keeps_codes(
      constant, product->is_transposed() ? MatrixOrder::kOutputsTerms : MatrixOrder::kTermsOutputs);
}

}  // namespace

PackedWeights packed_weights(const graph::Graph& graph) {
  std::map<std::string, std::string> takers;  // empty: the constant stays packed
  const auto take = [&](const std::string& name, const std::string& by) {
    std::string& first = takers[name];
    if (first.empty()) first = by;
  };
  for (const Node& node : graph.nodes) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const auto found = graph.quantized.find(node.inputs[i]);
      if (found == graph.quantized.end()) continue;
      take(node.inputs[i], keeps_codes(node, i, found->second) ? "" : text_of(node));
    }
  }
  for (const std::string& output : graph.outputs)
    if (graph.quantized.contains(output)) take(output, "an output");
  PackedWeights made;
  for (const auto& [name, by] : takers) {
    if (by.empty())
      made.packed.push_back(name);
    else
      made.decoded.emplace_back(name, by);
  }
  return made;
}

}  // namespace crumb::runtime
