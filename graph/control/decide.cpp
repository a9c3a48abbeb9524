#include "graph/control/decide.h"

#include <algorithm>
#include <map>
#include <utility>

#include "graph/choose.h"
#include "graph/control/names.h"
#include "graph/control/unroll.h"
#include "graph/edit.h"
#include "graph/facts/bind_shapes.h"
#include "graph/loop_parts.h"

namespace crumb::graph {
namespace {

constexpr int kMostRounds = 64;  // what one decides may tell the shapes that decide the next

bool is_control(const Node& node) { return is_choose(node) || is_loop(node); }

/// Removes the nodes that constants decide; returns whether there were any.
bool choose_sides(Graph& graph, const ConstantValues& constants) {
  std::map<std::string, std::string> chosen;
  std::erase_if(graph.nodes, [&](const Node& node) {
    if (!is_choose(node)) return false;
    const auto condition = constants.number(node.inputs[0]);
    if (!condition) return false;
    const std::size_t outputs = node.outputs.size(), first = *condition != 0 ? 1 : 1 + outputs;
    for (std::size_t i = 0; i < outputs; ++i) chosen.emplace(node.outputs[i], node.inputs[first + i]);
    return true;
  });
  replace_all(graph, chosen);
  return !chosen.empty();
}

bool unroll_all(Graph& graph, const ConstantValues& constants) {
  bool any = false;
  for (std::size_t i = 0; i < graph.nodes.size();) {
    if (is_loop(graph.nodes[i]) && unroll(graph, i, constants))
      any = true;  // the node is gone, and the next one is in its place
    else
      ++i;
  }
  return any;
}

}  // namespace

Graph decide_control_flow(Graph graph) {
  if (std::ranges::none_of(graph.nodes, is_control)) return graph;
  for (int round = 0; round < kMostRounds; ++round) {
    graph = resolve_shapes(std::move(graph));
    const Graph known = graph;
    const ConstantValues constants(known);
    const bool chose = choose_sides(graph, constants), unrolled = unroll_all(graph, constants);
    if (!chose && !unrolled) break;
    graph = sorted(std::move(graph));
    drop_unused(graph);
    if (std::ranges::none_of(graph.nodes, is_control)) break;
  }
  if (!has_choose(graph)) graph.opsets.erase(std::string(kControlDomain));
  return graph;
}

}  // namespace crumb::graph
