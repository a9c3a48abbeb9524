// Numbers for the dimensions that a graph leaves open.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "models/graph/graph.h"

namespace crumb::graph {

/// The graph with static inputs and shapes inferred anew: sizes as given by input name, a symbol the same
/// everywhere, and 1 for what is open still. Throws Error where a name is no input, or a given shape is none that
/// the input takes.
Graph bind_shapes(Graph graph, const std::map<std::string, std::vector<std::int64_t>>& given);

/// The graph, shapes inferred, those behind arithmetic on shapes (Shape -> Gather -> Concat -> Reshape) included.
/// Nodes stay as they are.
Graph resolve_shapes(Graph graph);

}  // namespace crumb::graph
