// From what operators take in to where quantizers stand. Internal to graph/quantize.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/quantize/plan.h"
#include "graph/quantize/rules.h"

namespace crumb::graph {

/// Where the quantizers of one input of a node stand.
struct Sources {
  std::vector<std::string> values;
  bool joined = false;  ///< by a Concat on the way: they share a scale
  /// Of each value, first outputs of the nodes that take it on the way.
  std::map<std::string, std::set<std::string>> takers = {};
};

/// Walks up from an input of a node, whose first output is `taker`, through what only moves elements. Nothing for constants and
/// values that have a quantizer. `behind`: outputs of concatenations that are quantized behind them.
Sources sources_of(const Graph& graph, const Links& links, const Constants& constants,
                   const std::string& value, const std::set<std::string>& behind = {},
                   const std::string& taker = "");

/// The edges of a plan, groups numbered from 0, and what of them may be left out; what was decided against somebody's wish goes
/// to the plan's notes.
void plan_edges(const Graph& graph, const Links& links, const Constants& constants, const RuledGraph& rules,
                const Recipe& recipe, const PlanOptions& options, QuantPlan& plan);

}  // namespace crumb::graph
