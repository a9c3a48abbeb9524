// Numbers for the dimensions that a graph leaves open.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

/// The graph with static inputs and shapes inferred anew: sizes as given by input name, a symbol the same
/// everywhere, also in sums (symbol_sizes.h), and 1 for what is open still. Throws Error where a name is no
/// input, or a given shape is none that the input takes.
Graph bind_shapes(Graph graph, const std::map<std::string, std::vector<std::int64_t>>& given);

/// The graph, shapes inferred, those behind arithmetic on shapes (Shape -> Gather -> Concat -> Reshape) included.
/// Nodes stay as they are.
Graph resolve_shapes(Graph graph);

/// The graph with one symbol for sizes that are the same: inference names what it cannot follow anew at each node, so
/// two branches of a residual sum seem to differ. Sizes are taken for the same that are so, and change together, when
/// the inputs' open sizes are bound to two sets of numbers; nothing becomes a number by that. Where the network takes
/// no such sizes, the graph stays as it is.
Graph unify_symbols(Graph graph);

}  // namespace crumb::graph
