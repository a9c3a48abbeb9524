// Infers types and shapes of a graph's values by ONNX's own rules.
#pragma once

#include "graph/graph.h"

namespace crumb::graph {

/// Returns the graph with types and shapes of every value (shape_faults.h says where ONNX contradicts
/// itself).
Graph infer_shapes(Graph graph);

}  // namespace crumb::graph
