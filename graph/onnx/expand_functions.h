// Operators that the standard defines by a body of simpler ones.
#pragma once

#include <functional>

#include "graph/engine.h"
#include "graph/graph.h"

namespace crumb::graph {

/// Operators that the engine does not know and that have a body are replaced by it, again and again until all are known
/// or have no body.
Graph expand_functions(Graph graph, const Engine& engine);

/// The same for those operators that are wanted so.
Graph expand_functions(Graph graph, const std::function<bool(const Node&)>& is_wanted);

}  // namespace crumb::graph
