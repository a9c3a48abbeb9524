// Integers that move between QuantizeLinear and DequantizeLinear, as onnxruntime's quantizer writes them
// (QuantFormat.QOperator).
#pragma once

#include "graph/graph.h"

namespace crumb::exporting {

/// Writes DequantizeLinear in front of what moves its codes (Flatten, Reshape, Transpose, Slice, MaxPool and
/// the like, by graph/operator_traits.h) instead of behind it: the values are the same. Only where one scale
/// and zero point are for all of them.
graph::Graph dequantize_before_moves(graph::Graph graph);

}  // namespace crumb::exporting
