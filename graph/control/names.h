// What control flow leaves behind: values that are other values. Internal to graph/control.
#pragma once

#include <map>
#include <string>

#include "graph/graph.h"

namespace crumb::graph {

/// Lets everything take the second value of each pair instead of the first, which nothing makes any more.
/// Second values may be first values of other pairs. Outputs of the graph keep their names.
void replace_all(Graph& graph, const std::map<std::string, std::string>& values);

}  // namespace crumb::graph
