// onnxruntime's EmbedLayerNormalization and QEmbedLayerNormalization (domain com.microsoft) as Gather, Add
// and LayerNormalization. Internal to graph/onnx: fused_operators.cpp calls these.
//
// Tables of codes are read behind DequantizeLinear. The second output is how many tokens of each sequence the
// mask shows, 0 where there is no mask. Each returns false where the form is not understood: half precision.
#pragma once

#include "graph/onnx/node_writer.h"

namespace crumb::graph {

bool write_embedding_norm(NodeWriter& writer);
bool write_quantized_embedding_norm(NodeWriter& writer);

}  // namespace crumb::graph
