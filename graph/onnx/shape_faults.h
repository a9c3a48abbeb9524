// What ONNX has to say against a graph's types and shapes.
#pragma once

#include <string>

#include "graph/graph.h"

namespace crumb::graph {

/// ONNX's own words on the nodes at which inference contradicts itself or what is known, and on the graph where it
/// cannot begin; empty where it has none. infer_shapes leaves such nodes, and what follows from them, as they are, and
/// passes and sums that need a shape leave them alone: whoever goes on with the graph says this to the user.
std::string shape_faults(const Graph& graph);

}  // namespace crumb::graph
