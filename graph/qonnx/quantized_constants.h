// Constants that are kept as codes, in QONNX's words and in ONNX's.
//
// In QONNX a quantized constant is a float32 initializer that holds (code - zero point) * scale, and a quantizer
// behind it that rounds to nearest and so finds the same codes again:
//
//   integers         Quant, signed and narrow as the format is, bit width [], scale and zero point [] where they
//                    are one number, else of full rank with ones on the axes along which they do not vary
//   half-integers    the same with the zero point -0.5
//   binary           BipolarQuant
//   minifloats       FloatQuant, its max_val the format's largest number
//   scales of groups Quant on [M, K/g, g] (MatMul: [K/g, g, N]) and a Reshape to the weight's shape behind it; where
//                    the groups do not divide K, a scale for each element
//
// A scale of 0 (a group of zeros) becomes 1, or for half-integers, which have no zero, the least float32; both give
// zeros, too.
#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"

namespace crumb::graph {

/// Why a constant has no quantizer in QONNX: "mxfp4 has a block scale of its own (e8m0)"; nothing where it has one.
std::optional<std::string> no_quantizer_for(const QuantizedConstant& constant);

/// Those of the graph that have none, and why, in one sentence; empty where all have one.
std::string constants_without_quantizer(const Graph& graph);

/// Every quantized constant as an initializer and a quantizer. Throws that sentence as Error where it is not empty.
Graph lower_quantized(Graph graph);

/// The same, and those that have no quantizer become float32 initializers.
Graph lower_or_fold_quantized(Graph graph);

/// Every quantized constant as a float32 initializer.
Graph fold_quantized(Graph graph);

}  // namespace crumb::graph
