// ONNX's Attention, and values by heads, as the operators of onnxruntime need them. Internal to graph/onnx.
#pragma once

#include <string>
#include <vector>

#include "graph/onnx/node_writer.h"

namespace crumb::graph {

/// What ONNX's Attention takes and makes.
struct Attended {
  std::string query, key, value, mask, past_key, past_value;
  std::int64_t heads = 0, kv_heads = 0;  ///< 0: inputs have four axes
  bool is_causal = false;
  bool keeps = false;  ///< keys and values are outputs
};

/// Adds an Attention with the scale and softcap of the node. Returns the output, and keys and values where
/// they are kept.
std::vector<std::string> attend(NodeWriter& writer, const Attended& what);

/// Whether the attribute is a number of heads.
bool has_heads(const Node& node, const char* attribute);

/// Returns the sum of two values, of which either may be "".
std::string sum_of(NodeWriter& writer, const std::string& a, const std::string& b);

/// [batch, rows, heads * depth] as [batch, heads, rows, depth], and back.
std::string by_heads(NodeWriter& writer, const std::string& x, std::int64_t heads);
std::string heads_together(NodeWriter& writer, const std::string& x);

}  // namespace crumb::graph
