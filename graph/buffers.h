// Float constants of a graph that do not train: a rotation's frequencies, a mask, what passes put in. The others are taken for
// weights.
#pragma once

#include <set>
#include <string>

#include "graph/graph.h"

namespace crumb::graph {

/// In Graph::metadata: their names, one a line.
inline constexpr const char* kBuffersKey = "crumb.buffers";

std::set<std::string> buffers(const Graph& graph);
void add_buffer(Graph& graph, const std::string& name);

}  // namespace crumb::graph
