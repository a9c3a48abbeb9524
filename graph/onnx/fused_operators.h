// Operators that onnxruntime's optimizer writes for several of ONNX's (domain com.microsoft, and
// SimplifiedLayerNormalization of its own in ONNX's), as those.
//
//   FusedMatMul, FusedGemm, FusedConv      a product with a factor, transposes, an activation, a sum
//   Gelu, FastGelu, QuickGelu, BiasGelu    by Erf, Tanh and Sigmoid
//   SkipLayerNormalization, SkipSimplifiedLayerNormalization, SimplifiedLayerNormalization
//   QuantizeLinear, DequantizeLinear       ONNX's own since operator set 10
//
// its attention (attention_operators.h), embeddings (embedding_operators.h) and DynamicQuantizeLSTM
// (recurrent_operators.h), and its operators on quantized values (integer_operators.h).
#pragma once

#include "graph/graph.h"

namespace crumb::graph {

/// Replaces these nodes. Where a form is not understood (transposed batches, a mean that is an output, a
/// transpose of an unknown rank), the node stays as it is.
Graph take_fused_operators(Graph graph);

}  // namespace crumb::graph
