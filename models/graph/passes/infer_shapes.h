// Types and shapes of the values between, from those of inputs and initializers.
#pragma once

#include "models/graph/graph.h"

namespace crumb::graph {

/// The ONNX library's inference, shape arithmetic (Shape, Gather, Concat, ...) included, with QONNX's operators
/// known to it. What it finds replaces what the file said; where it finds nothing, the file's word stands. Never
/// fails: what cannot be inferred stays unknown.
Graph infer_shapes(Graph graph);

}  // namespace crumb::graph
