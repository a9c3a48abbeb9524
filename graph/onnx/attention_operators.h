// onnxruntime's attention (domain com.microsoft) as ONNX's Attention of operator set 23, with the products
// around it as MatMul and Add. Internal to graph/onnx: fused_operators.cpp calls these.
//
//   Attention, QAttention   the merged matrix of queries, keys and values: one MatMul, Add and Split
//   MultiHeadAttention      three values, or one in which they are packed
//   GroupQueryAttention     with rotary positions, and keys and values that are kept by length
//   RotaryEmbedding         ONNX's own, also where positions are counted from one offset
//
// Masks of 0 and 1 become what is added to the scores, as onnxruntime adds it: 0 or `mask_filter_value`.
//
// Each returns false, and adds nothing that counts, where a form is not understood: masks of four axes and
// lengths of packed batches, caches that are written in place (past_present_share_buffer) by Attention and
// MultiHeadAttention, attention sinks, quantized caches, scores as an output, half precision, unidirectional
// attention to more or fewer keys than queries, and sizes that must be known and are not.
#pragma once

#include "graph/onnx/node_writer.h"

namespace crumb::graph {

bool write_attention(NodeWriter& writer);
bool write_quantized_attention(NodeWriter& writer);
bool write_multi_head_attention(NodeWriter& writer);
bool write_group_query_attention(NodeWriter& writer);
bool write_rotary_embedding(NodeWriter& writer);

}  // namespace crumb::graph
