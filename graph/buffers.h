// Float constants of a graph that do not train, such as a rotary embedding's frequencies, a mask, or what
// passes add. All other float constants count as weights.
#pragma once

#include <set>
#include <string>

#include "graph/graph.h"

namespace crumb::graph {

/// Entry of Graph::metadata with the names of the buffers, one a line.
inline constexpr const char* kBuffersKey = "crumb.buffers";

std::set<std::string> buffers(const Graph& graph);
void add_buffer(Graph& graph, const std::string& name);

}  // namespace crumb::graph
