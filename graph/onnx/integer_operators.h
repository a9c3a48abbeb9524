// Operators on quantized values, ONNX's and onnxruntime's (domain com.microsoft), written with
// DequantizeLinear, the float operator and QuantizeLinear, from which passes and the runtime make integers
// again.
//
//   QLinearConv, QLinearMatMul, QGemm           codes times codes; a bias of 32 bits has the scale of the
//                                               products
//   QLinearAdd, QLinearMul, QLinearConcat, QLinearWhere, QLinearSigmoid, QLinearLeakyRelu, QLinearSoftmax,
//   QLinearAveragePool, QLinearGlobalAveragePool
//   MatMulInteger, ConvInteger                  codes less their zero points, and a Cast to int32: sums are
//                                               those of float32, exact below 2^24
//   MatMulIntegerToFloat, DynamicQuantizeMatMul
//
// What is exact in both forms is the same; else the last digit may round to another code.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace crumb::graph {

/// Whether the node is of one of these operators.
bool has_float_form(const Node& node);

/// Replaces the nodes of these operators for which `is_wanted` is true. Nodes whose form is not understood
/// (channels last of an unknown rank, Softmax of old operator sets over several axes) stay as they are.
Graph dequantize_operators(Graph graph, const std::function<bool(const Node&)>& is_wanted);

}  // namespace crumb::graph
