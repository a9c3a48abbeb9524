#include "export/qcdq/moved_codes.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "export/qcdq/qcdq_reader.h"
#include "graph/edit.h"

namespace crumb::exporting {
namespace {

using graph::Graph;
using graph::Links;
using graph::Node;
using graph::Tensor;

/// Whether input 0 has the elements of the only output, each in its place or left out, or the largest ones.
bool moves_codes(const Node& node) {
  constexpr std::array<std::string_view, 12> kMoves = {"DepthToSpace",  "Expand",  "Flatten",   "Gather",
                                                       "GlobalMaxPool", "MaxPool", "Reshape",   "Slice",
                                                       "Squeeze",       "Tile",    "Transpose", "Unsqueeze"};
  const bool is_one = node.domain == graph::kOnnxDomain && node.outputs.size() == 1 && node.has_input(0);
  return is_one && (std::ranges::find(kMoves, node.op) != kMoves.end() || node.op == "SpaceToDepth");
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
