// Numbers for the dimensions that a graph leaves open.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

/// Returns the graph with static inputs and newly inferred shapes. `given` has sizes by input name. A symbol
/// gets the same size everywhere, also in sums (symbol_sizes.h); sizes that stay open become 1. Throws Error
/// where a name is no input, or where an input does not take the given shape.
Graph bind_shapes(Graph graph, const std::map<std::string, std::vector<std::int64_t>>& given);

/// Returns the graph with inferred shapes, also behind arithmetic on shapes (Shape -> Gather -> Concat ->
/// Reshape). Nodes do not change.
Graph resolve_shapes(Graph graph);

/// Returns the graph with one symbol for equal sizes. Inference gives each size that it cannot derive a new
/// name, so the two branches of a residual sum seem to differ. Two sizes count as equal if they are equal,
/// and change together, when the inputs' open sizes are bound to two sets of numbers. No size becomes a
/// number by that. Where the network does not take those sizes, the graph stays as it is.
Graph unify_symbols(Graph graph);

}  // namespace crumb::graph
