// onnxruntime's DynamicQuantizeLSTM (domain com.microsoft) as ONNX's LSTM, whose weights are read behind
// DequantizeLinear. Internal to graph/onnx: fused_operators.cpp calls this.
//
// onnxruntime rounds each step's input and state to 8 bits, by their ranges in that step. Here they stay
// floats, so that results differ by that rounding.
#pragma once

#include "graph/onnx/node_writer.h"

namespace crumb::graph {

/// Returns false where the scales have no known shape.
bool write_dynamic_quantized_lstm(NodeWriter& writer);

}  // namespace crumb::graph
