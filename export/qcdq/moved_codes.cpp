#include "export/qcdq/moved_codes.h"

#include <utility>
#include <vector>

#include "export/qcdq/qcdq_reader.h"
#include "graph/edit.h"
#include "graph/operator_traits.h"

namespace crumb::exporting {
namespace {

using graph::Graph;
using graph::Links;
using graph::Node;
using graph::Tensor;

/// Whether the only output is elements of input 0.
bool moves_codes(const Node& node) {
  return node.domain == graph::kOnnxDomain && node.outputs.size() == 1 && node.has_input(0) &&
         graph::is_any(node, graph::trait::kMoves | graph::trait::kPicks);
}

bool has_one_scale(const Graph& graph, const Node& dequantize) {
  for (const std::size_t i : {1, 2}) {
    if (!dequantize.has_input(i)) continue;
    const Tensor* held = graph.constant(dequantize.inputs[i]);
    if (!held || held->size() != 1 || held->rank() > 1) return false;
  }
  return dequantize.has_input(1);
}

/// Moves every such node by one; returns whether there was any.
bool move_by_one(Graph& graph) {
  const Links links(graph);
  std::vector<Node> before = graph.nodes, after;
  bool any = false;
  for (Node& node : before) {
    const std::size_t from =
        is_dequantize(node) && node.has_input(0) ? links.producer(node.inputs[0]) : Links::kNone;
    if (from == Links::kNone || !moves_codes(graph.nodes[from]) || !has_one_scale(graph, node)) {
      after.push_back(std::move(node));
      continue;
    }
    any = true;
    Node mover = graph.nodes[from];
    mover.name = graph.unused_node_name(node.name + "_" + mover.op);
    mover.outputs = node.outputs;
    node.inputs[0] = std::exchange(mover.inputs[0], add_value(graph, node.outputs[0] + "_before", {}));
    node.outputs = {mover.inputs[0]};
    after.push_back(std::move(node));
    after.push_back(std::move(mover));
  }
  graph.nodes = std::move(after);
  return any;
}

}  // namespace

Graph dequantize_before_moves(Graph graph) {
  while (move_by_one(graph)) drop_unused(graph);
  return graph;
}

}  // namespace crumb::exporting
