// Turns QONNX's quantizers of constants into constants that are kept as codes: the inverse of
// quantized_constants.h.
#pragma once

#include "graph/graph.h"

namespace crumb::graph {

/// Replaces every Quant, IntQuant, BipolarQuant and FloatQuant of a constant by an entry of graph.quantized
/// with its output's name, if a QuantizedTensor can hold exactly the same integers, scales and zero points:
/// whole widths of 1 to 8 bits, one scale for all, for channels, groups or blocks, and minifloats of
/// number_formats(). A Reshape or Transpose that is the only consumer of the output is applied to the
/// constant, which then has the name of that node's output. The rounding mode is applied once and then gone;
/// a zero may lose its sign.
///
/// Everything else stays as it is: other widths and minifloats, scales that are not positive, quantizers
/// whose output is one of the graph's. Unused nodes and constants are removed. Throws Error, which names the
/// node, where a constant's quantizer has parameters that do not fit.
Graph lift_quantized(Graph graph);

}  // namespace crumb::graph
