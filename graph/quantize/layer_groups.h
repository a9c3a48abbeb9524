// Which layers of a network can have formats of their own for weights and for what they take in, and which share them: a value has
// one quantizer for all who take it (plan.h), and a weight one format for all.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "graph/quantize/plan.h"

namespace crumb::graph {

/// A node that multiplies by weights.
struct WeightedNode {
  std::size_t node = 0;
  std::string input;  ///< what it takes beside its weights, the first of them; "" where nothing flows
  std::vector<std::string>
      sources;  ///< values where the quantizers of that stand; empty: it has them already
};

/// Weights that have one format: those of one node, and of all nodes that share some of them. Tables that rows are picked from
/// have no nodes.
struct FormatUnit {
  std::set<std::string> constants;
  std::vector<WeightedNode> nodes;
};

/// Units that share a source.
struct LayerGroup {
  std::vector<FormatUnit> units;
  std::set<std::string> sources;
};

/// Of the plan's weights that become codes, in the graph's order, groups by their first node.
std::vector<LayerGroup> layer_groups(const Graph& graph, const QuantPlan& plan);

/// Those of a plan's edges that stand between a node and what it takes.
std::vector<const PlannedEdge*> edges_before(const WeightedNode& node, const QuantPlan& plan);

}  // namespace crumb::graph
