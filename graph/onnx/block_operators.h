// onnxruntime's operators that take weights as packed codes (domain com.microsoft), as ONNX's operators on
// constants that are kept as codes.
//
//   MatMulNBits            MatMul of a constant [K, N], and Add where the node has a bias. The codes stay as
//                          they are, the scales too (graph/onnx/block_codes.h)
//   GatherBlockQuantized   Gather of a constant [rows, columns], where the data are uint8 of 2, 4 or 8 bits,
//                          gathered along their first of two axes, and blocks run along the second
//
// Where the scales are float16 or bfloat16, so are the other values: Casts to float32 and back stand around
// the product. `accuracy_level` says how far the input may be rounded; these products compute in float32,
// which every level allows.
#pragma once

#include <string_view>

#include "graph/graph.h"

namespace crumb::graph {

inline constexpr std::string_view kOnnxruntimeDomain = "com.microsoft";

/// Replaces these nodes. Nodes whose codes, scales or zero points are computed stay as they are, and
/// GatherBlockQuantized of other types and axes. Throws Error, which names the node, for g_idx, for weights
/// that are prepacked for one kind of processor, for other widths than 2, 4 and 8 bits, and where sizes do
/// not fit or a scale is not finite.
Graph take_block_operators(Graph graph);

}  // namespace crumb::graph
