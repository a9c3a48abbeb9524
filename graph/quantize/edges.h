// Finds where the quantizers of operators' inputs go. Internal to graph/quantize.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/quantize/plan.h"
#include "graph/quantize/rules.h"

namespace crumb::graph {

/// The values to quantize for one input of a node.
struct Sources {
  std::vector<std::string> values;
  bool joined = false;  ///< by a Concat, so that they share a scale
  /// For each value, the first outputs of its consumers on the way to the node.
  std::map<std::string, std::set<std::string>> takers = {};
};

/// Walks up from an input of a node, whose first output is `taker`, through nodes that only move elements.
/// Returns nothing for constants and values that have a quantizer. `behind`: outputs of concatenations that
/// are quantized themselves.
Sources sources_of(const Graph& graph, const Links& links, const Constants& constants,
                   const std::string& value, const std::set<std::string>& behind = {},
                   const std::string& taker = "");

/// Sets the edges of a plan, with groups numbered from 0, and which of them are optional. Decisions against a
/// request become notes of the plan.
void plan_edges(const Graph& graph, const Links& links, const Constants& constants, const RuledGraph& rules,
                const Recipe& recipe, const PlanOptions& options, QuantPlan& plan);

}  // namespace crumb::graph
