// ONNX's complaints about a graph's types and shapes.
#pragma once

#include <string>

#include "graph/graph.h"

namespace crumb::graph {

/// Returns ONNX's own messages about the nodes where inference contradicts itself or what is known, and about
/// the graph where inference cannot begin; empty where there are none. infer_shapes leaves such nodes, and
/// what depends on them, as they are, and passes and sums that need a shape skip them: code that continues
/// with the graph shows these messages to the user.
std::string shape_faults(const Graph& graph);

}  // namespace crumb::graph
