// QONNX's quantizers of constants as constants that are kept as codes: the way back from quantized_constants.h.
#pragma once

#include "graph/graph.h"

namespace crumb::graph {

/// Every Quant, IntQuant, BipolarQuant and FloatQuant of a constant becomes an entry of graph.quantized, under the name
/// of its output, wherever a QuantizedTensor holds exactly the same integers, scales and zero points: whole widths of 1
/// to 8 bits, one scale for all, for channels, groups or blocks, minifloats that are one of number_formats(). A Reshape
/// or Transpose that is all that takes the output goes into the constant, which then has that one's name. The rounding
/// mode is applied once and for all; a zero may lose its sign.
///
/// What cannot be held stays as it is: other widths and minifloats, scales that are not positive, quantizers whose
/// output is one of the graph's. Nodes and constants that nothing needs any more go. Throws Error, which names the
/// node, where a constant's own quantizer is no sound one.
Graph lift_quantized(Graph graph);

}  // namespace crumb::graph
