#include "graph/onnx/attention_parts.h"

#include "graph/onnx/sizes_of_values.h"

namespace crumb::graph {
namespace {

constexpr std::int64_t kAttentionSet = 23, kMostHeads = 1 << 20;
const std::vector<std::int64_t> kExchanged{0, 2, 1, 3};

}  // namespace

std::vector<std::string> attend(NodeWriter& writer, const Attended& what) {
  NodeWriter::Attributes attributes;
  if (what.heads > 0) {
    attributes["q_num_heads"] = what.heads;
    attributes["kv_num_heads"] = what.kv_heads;
  }
  if (what.is_causal) attributes["is_causal"] = std::int64_t{1};
  if (const float scale = writer.node().float_or("scale", 0); scale != 0) attributes["scale"] = scale;
  if (const float cap = writer.node().float_or("softcap", 0); cap != 0) attributes["softcap"] = cap;
  return writer.add_of_several("Attention",
                               {what.query, what.key, what.value, what.mask, what.past_key, what.past_value},
                               what.keeps ? 3 : 1, attributes, kAttentionSet);
}

bool has_heads(const Node& node, const char* attribute) {
  const std::int64_t heads = node.int_or(attribute, 0);
  return heads >= 1 && heads <= kMostHeads;
}

std::string sum_of(NodeWriter& writer, const std::string& a, const std::string& b) {
  return a.empty() ? b : b.empty() ? a : writer.add("Add", {a, b});
}

std::string by_heads(NodeWriter& writer, const std::string& x, std::int64_t heads) {
  const std::string split = writer.add("Reshape", {x, list_of(writer, "heads", {0, 0, heads, -1})});
  return writer.add("Transpose", {split}, {{"perm", kExchanged}});
}

std::string heads_together(NodeWriter& writer, const std::string& x) {
  const std::string rows = writer.add("Transpose", {x}, {{"perm", kExchanged}});
  return writer.add("Reshape", {rows, list_of(writer, "together", {0, 0, -1})});
}

}  // namespace crumb::graph
