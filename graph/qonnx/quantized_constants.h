// Converts constants that are kept as codes to QONNX's quantizers and to ONNX's floats.
//
// In QONNX a quantized constant is a float32 initializer that holds (code - zero point) * scale, and a
// quantizer behind it that rounds to nearest and so gives the same codes again:
//
//   integers         Quant, signed and narrow as the format is, bit width [], scale and zero point [] where
//                    they are one number, else of full rank with ones on the axes on which they do not vary
//   half-integers    the same with the zero point -0.5
//   binary           BipolarQuant
//   minifloats       FloatQuant, its max_val the format's largest number
//   scales of groups Quant on [M, K/g, g] (MatMul: [K/g, g, N]) and a Reshape to the weight's shape behind
//                    it; where the groups do not divide K, a scale for each element
//
// A scale of 0 (a group of zeros) becomes 1, or for half-integers, which have no zero, the least float32;
// both give zeros, too.
#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"

namespace crumb::graph {

/// Returns why QONNX has no quantizer for a constant: "mxfp4 has a block scale of its own (e8m0)"; nothing
/// where it has one.
std::optional<std::string> no_quantizer_for(const QuantizedConstant& constant);

/// Returns one sentence with the graph's constants that have no quantizer, and why; empty where all have one.
std::string constants_without_quantizer(const Graph& graph);

/// Replaces every quantized constant by an initializer and a quantizer. Throws the sentence of
/// constants_without_quantizer() as Error where it is not empty.
Graph lower_quantized(Graph graph);

/// Does the same, with float32 initializers for constants that have no quantizer.
Graph lower_or_fold_quantized(Graph graph);

/// Replaces every quantized constant by a float32 initializer.
Graph fold_quantized(Graph graph);

}  // namespace crumb::graph
