// From what operators take in to where quantizers stand. Internal to graph/quantize.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/quantize/plan.h"
#include "graph/quantize/rules.h"

namespace crumb::graph {

/// Where the quantizers of one input of a node stand.
struct Sources {
  std::vector<std::string> values;
  bool joined = false;  ///< by a Concat on the way: they share a scale
};

/// Walks up from a value through what only moves elements. Nothing for constants and values that have a quantizer.
Sources sources_of(const Graph& graph, const Links& links, const Constants& constants,
                   const std::string& value);

/// The edges of a plan, groups numbered from 0; what was decided against somebody's wish goes to the notes.
std::vector<PlannedEdge> plan_edges(const Graph& graph, const Links& links, const Constants& constants,
                                    const RuledGraph& rules, const Recipe& recipe, const PlanOptions& options,
                                    std::vector<std::string>& notes);

}  // namespace crumb::graph
