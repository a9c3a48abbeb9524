// Which layers of a network can have their own formats of weights and inputs, and which share them: a value
// has one quantizer for all consumers (plan.h), and a weight one format for all nodes.
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
  std::string input;  ///< the first input that is not a weight; "" if all are constant
  std::vector<std::string>
      sources;  ///< the values at which that input is quantized; empty: it has quantizers already
};

/// Weights that have one format: those of one node, and of all nodes that share some of them. Tables that
/// rows are gathered from have no nodes.
struct FormatUnit {
  std::set<std::string> constants;
  std::vector<WeightedNode> nodes;
};

/// Units that share a source.
struct LayerGroup {
  std::vector<FormatUnit> units;
  std::set<std::string> sources;
};

/// Returns the groups of the plan's weights that become codes, in the graph's order by their first node.
std::vector<LayerGroup> layer_groups(const Graph& graph, const QuantPlan& plan);

/// Returns the plan's edges that quantize a node's inputs.
std::vector<const PlannedEdge*> edges_before(const WeightedNode& node, const QuantPlan& plan);

}  // namespace crumb::graph
