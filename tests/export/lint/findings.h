// What a rule says of a graph, and what its fix makes of a node.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "export/lint/lint.h"
#include "export/lint/subject.h"
#include "graph/onnx/infer_shapes.h"
#include "tests/graph/node_builder.h"

namespace crumb::exporting {

inline std::vector<Finding> of_rule(const Graph& graph, Profile profile, std::string_view rule) {
  std::vector<Finding> all = lint(graph, profile);
  std::erase_if(all, [&](const Finding& one) { return one.rule != rule; });
  return all;
}

/// "" where the rule says nothing; else what it says, and behind that whether it can be fixed.
inline std::string said_by(const Graph& graph, Profile profile, std::string_view rule) {
  std::string said;
  for (const Finding& one : lint(graph, profile)) {
    if (one.rule == rule)
      said += (said.empty() ? "" : "; ") + one.message + (one.fixable ? " [yes]" : " [no]");
  }
  return said;
}

/// The only node of this operator.
inline const Node& only(const Graph& graph, std::string_view op) {
  const auto found = std::ranges::find(graph.nodes, op, &Node::op);
  REQUIRE(found != graph.nodes.end());
  CHECK(std::ranges::count(graph.nodes, op, &Node::op) == 1);
  return *found;
}

/// The same in the graph as it is fixed.
inline Node fixed(const graph::NodeBuilder& net, Profile profile, std::string_view op) {
  const Graph graph = fix(graph::infer_shapes(net.graph), profile);
  const auto found = std::ranges::find(graph.nodes, op, &Node::op);
  REQUIRE(found != graph.nodes.end());
  CHECK(std::ranges::count(graph.nodes, op, &Node::op) == 1);
  return *found;
}

}  // namespace crumb::exporting
