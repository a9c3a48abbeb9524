#include "runtime/packed_weights.h"

#include <algorithm>
#include <map>

#include "graph/operator_traits.h"
#include "graph/weighted_product.h"
#include "runtime/lower/domain.h"
#include "runtime/operator.h"
#include "runtime/ops/held_matrix.h"

namespace crumb::runtime {
namespace {

using graph::Node;
using graph::QuantizedConstant;

/// A constant that is packed: one of both.
struct Packed {
  const QuantizedConstant* codes = nullptr;
  const graph::PackedRows* rows = nullptr;

  std::size_t rank() const { return codes ? codes->axes.size() : 2; }
  std::uint64_t bytes() const { return codes ? rows_of(codes->tensor)->bytes() : rows->source->bytes(); }
};

Packed find_packed(const graph::Graph& graph, const std::string& value) {
  if (const auto codes = graph.quantized.find(value); codes != graph.quantized.end())
    return {.codes = &codes->second};
  const graph::Tensor* const tensor = graph.constant(value);
  return {.rows = tensor ? tensor->packed_rows() : nullptr};
}

/// Whether its kernel is that of a recurrent operator, in front of which lowering puts the inputs' products
/// or not.
bool is_recurrent(const Node& node) {
  Node usual;
  usual.op = node.op;
  return node.domain == kRuntimeDomain ? graph::is_any(usual, graph::trait::kRecurrent)
                                       : graph::is_any(node, graph::trait::kRecurrent);
}

/// Whether the kernel of the node works on its input `input` as it is packed.
bool keeps_packed(const Node& node, std::size_t input, const Packed& constant) {
  const OperatorRow* const row = find_operator(node.op, node.domain);
  if (!row || row->holds != input) return false;
  const auto product = graph::weighted_product(node, constant.rank(), input);
  if (is_recurrent(node))
    return constant.codes && HeldMatrix::keeps_codes(*constant.codes, MatrixOrder::kOutputsTerms);
  if (!product)
    return constant.codes ? gathers_codes(node, *constant.codes) : gathers_rows(node, *constant.rows);
  const MatrixOrder order =
      product->is_transposed() ? MatrixOrder::kOutputsTerms : MatrixOrder::kTermsOutputs;
  return constant.codes ? HeldMatrix::keeps_codes(*constant.codes, order)
                        : HeldMatrix::keeps_rows(*constant.rows, order);
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
      const Packed found = find_packed(graph, node.inputs[i]);
      if (!found.codes && !found.rows) continue;
      take(node.inputs[i], keeps_packed(node, i, found) ? "" : text_of(node));
    }
  }
  for (const std::string& output : graph.outputs) {
    const Packed found = find_packed(graph, output);
    if (found.codes || found.rows) take(output, "an output");
  }
  PackedWeights made;
  for (const auto& [name, by] : takers) {
    if (by.empty()) {
      made.packed.push_back(name);
      made.packed_bytes += find_packed(graph, name).bytes();
    } else {
      made.decoded.emplace_back(name, by);
    }
  }
  return made;
}

}  // namespace crumb::runtime
