// Expands operators that the standard defines by a body of simpler ones.
#pragma once

#include <functional>

#include "graph/engine.h"
#include "graph/graph.h"

namespace crumb::graph {

/// Replaces operators that the engine does not know by their bodies, repeatedly, until it knows all of them
/// or they have no body.
Graph expand_functions(Graph graph, const Engine& engine);

/// Does the same for the operators for which `is_wanted` is true.
Graph expand_functions(Graph graph, const std::function<bool(const Node&)>& is_wanted);

}  // namespace crumb::graph
