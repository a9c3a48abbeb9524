#include "graph/quantize/layer_groups.h"

#include <algorithm>
#include <map>

#include "graph/quantize/edges.h"
#include "graph/quantize/operators.h"

namespace crumb::graph {
namespace {

/// The weights of one node, or a table: the smallest part of a unit.
struct Piece {
  std::set<std::string> constants;
  std::vector<WeightedNode> nodes;
  std::set<std::string> sources;
};

/// Joins parts with common names, in the order of the first part of each.
template <class Part, class Names, class Join>
std::vector<Part> joined(std::vector<Part> parts, const Names& names, const Join& join) {
  std::vector<Part> made;
  for (Part& part : parts) {
    std::vector<std::size_t> same;
    for (std::size_t i = 0; i < made.size(); ++i) {
      const bool shares = std::ranges::any_of(
          names(part), [&](const std::string& name) { return names(made[i]).contains(name); });
      if (shares) same.push_back(i);
    }
    if (same.empty()) {
      made.push_back(std::move(part));
      continue;
    }
    for (std::size_t k = same.size(); k-- > 1;) {
      join(made[same[0]], made[same[k]]);
      made.erase(made.begin() + static_cast<std::ptrdiff_t>(same[k]));
    }
    join(made[same[0]], part);
  }
  return made;
}

std::vector<Piece> pieces_of(const Graph& graph, const QuantPlan& plan) {
  std::set<std::string> planned;
  for (const PlannedConstant& constant : plan.constants)
    if (constant.spec && constant.is_weight) planned.insert(constant.value);
  const Links links(graph);
  const Constants constants(graph);
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    Piece piece;
    bool is_table = false;
    for (const WeightInput& weight : weight_inputs(graph, node, constants)) {
      if (!planned.contains(node.inputs[weight.input])) continue;
      piece.constants.insert(node.inputs[weight.input]);
      is_table = is_table || weight.is_embedding;
    }
    if (piece.constants.empty()) continue;
    if (!is_table) {
      WeightedNode weighted{.node = i, .input = {}, .sources = {}};
      for (const std::size_t input : activation_inputs(graph, node, constants).inputs) {
        if (weighted.input.empty()) weighted.input = node.inputs[input];
        for (const std::string& value : sources_of(graph, links, constants, node.inputs[input]).values) {
          weighted.sources.push_back(value);
          piece.sources.insert(value);
        }
      }
      piece.nodes.push_back(std::move(weighted));
    }
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

}  // namespace

std::vector<LayerGroup> layer_groups(const Graph& graph, const QuantPlan& plan) {
  const auto units = joined(
      pieces_of(graph, plan), [](const Piece& piece) -> const auto& { return piece.constants; },
      [](Piece& into, Piece& from) {
        into.constants.merge(from.constants);
        into.sources.merge(from.sources);
        std::ranges::move(from.nodes, std::back_inserter(into.nodes));
      });
  std::vector<LayerGroup> groups;
  for (const Piece& unit : units)
    groups.push_back(
        {.units = {{.constants = unit.constants, .nodes = unit.nodes}}, .sources = unit.sources});
  return joined(
      std::move(groups), [](const LayerGroup& group) -> const auto& { return group.sources; },
      [](LayerGroup& into, LayerGroup& from) {
        std::ranges::move(from.units, std::back_inserter(into.units));
        into.sources.merge(from.sources);
      });
}

std::vector<const PlannedEdge*> edges_before(const WeightedNode& node, const QuantPlan& plan) {
  std::vector<const PlannedEdge*> edges;
  for (const PlannedEdge& edge : plan.edges)
    if (edge.value == node.input || std::ranges::find(node.sources, edge.value) != node.sources.end())
      edges.push_back(&edge);
  return edges;
}

}  // namespace crumb::graph
