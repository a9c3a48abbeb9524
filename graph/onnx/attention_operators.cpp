#include "graph/onnx/attention_operators.h"

#include <array>
#include <span>
#include <utility>

#include "graph/onnx/attention_parts.h"
#include "graph/onnx/sizes_of_values.h"

namespace crumb::graph {
namespace {
namespace attention_bodies {

using Ints = std::vector<std::int64_t>;

constexpr std::int64_t kSplitSet = 13;
constexpr float kUsualFilter = -10000;  // mask_filter_value, where the node does not say it

/// A mask of 0 and 1, or lengths, and what says how many queries and keys there are.
struct Mask {
  std::string given;  ///< [batch, keys], [batch, queries, keys], [batch] or [2 * batch]
  std::string query;  ///< [batch, queries, ...]
  std::string key;    ///< new keys, counted along `key_axis`
  std::int64_t key_axis = 1;
  std::string past;  ///< earlier keys, counted along `past_axis`; "": there are none
  std::int64_t past_axis = 2;
};

std::string key_count(NodeWriter& writer, const Mask& mask) {
  const std::string now = size_of(writer, mask.key, mask.key_axis);
  return mask.past.empty() ? now : writer.add("Add", {now, size_of(writer, mask.past, mask.past_axis)});
}

/// Lengths [batch], behind which there may be starts [batch]: the keys from a start up to a length are seen.
std::string seen_by_lengths(NodeWriter& writer, const Mask& mask) {
  const auto count = known_size(writer, mask.given, 0), batch = known_size(writer, mask.query, 0);
  const bool has_starts = count && batch && *batch > 0 && *count == 2 * *batch;
  std::string ends = mask.given, starts;
  if (has_starts) {
    const auto parts =
        writer.add_of_several("Split", {mask.given, list_of(writer, "halves", {*batch, *batch})}, 2,
                              {{"axis", std::int64_t{0}}}, kSplitSet);
    ends = parts[0];
    starts = parts[1];
  }
  const auto column = [&](const std::string& value) {
    return unsqueezed(writer, as_int64(writer, value), {1});
  };
  const std::string places = counted_to(writer, key_count(writer, mask));
  const std::string seen = writer.add("Less", {places, column(ends)}, {}, 9);
  if (starts.empty()) return seen;
  return writer.add("And", {seen, writer.add("Not", {writer.add("Less", {places, column(starts)}, {}, 9)})});
}

/// Returns what is added to the scores, [batch, 1, queries, keys]; "" where nothing is, and nothing where the
/// mask is not understood.
std::optional<std::string> added_for(NodeWriter& writer, const Mask& mask) {
  if (mask.given.empty()) return "";
  const auto rank = writer.rank_of(mask.given);
  if (!rank || *rank < 1 || *rank > 3) return std::nullopt;
  if (rank == 2 && known_size(writer, mask.given, 1) == 1) return "";  // the same for every key
  const float filter = writer.node().float_or("mask_filter_value", kUsualFilter);
  const std::string key = "mask " + mask.given + ' ' + std::to_string(filter) + ' ';
  const auto values = [&] {
    const std::int64_t none = 0;
    const std::string seen =
        rank == 1 ? seen_by_lengths(writer, mask)
                  : writer.add("Greater",
                               {mask.given,
                                writer.constant("none", Tensor::ints(ElementType::kInt32, {}, {&none, 1}))},
                               {}, 9);
    return writer.add("Where", {seen, writer.number("seen", 0), writer.number("filter", filter)}, {}, 9);
  };
  if (rank == 3) return writer.once(key, [&] { return unsqueezed(writer, values(), {1}); });
  // Attention takes a row for each query. Without a past there are as many as keys.
  const bool is_square = rank == 2 && mask.past.empty() && mask.key == mask.query;
  const std::string rows = is_square ? mask.given : mask.query;
  return writer.once(key + rows, [&] {
    const std::string one = list_of(writer, "one", {1}), row = unsqueezed(writer, values(), {1, 2});
    const std::string shape =
        writer.add("Concat", {one, one, size_list_of(writer, rows, 1), one}, {{"axis", std::int64_t{0}}});
    return writer.add("Expand", {row, shape}, {}, 8);
  });
}

/// The inputs of Attention and of QAttention, whose order differs.
struct Merged {
  std::string x, weights, bias, mask, past, score_bias;
  std::string weight_sizes;  ///< the value whose last axis is that of the weights
};

/// The width of queries, keys and values.
std::optional<std::array<std::int64_t, 3>> widths_of(const NodeWriter& writer, const Merged& in) {
  const Ints stated = writer.node().ints_or("qkv_hidden_sizes", {});
  if (stated.size() == 3) return std::array{stated[0], stated[1], stated[2]};
  auto all = known_size(writer, in.weight_sizes, -1);
  if (!all && !in.bias.empty()) all = known_size(writer, in.bias, 0);
  if (!all || !stated.empty() || *all % 3 != 0) return std::nullopt;
  return std::array{*all / 3, *all / 3, *all / 3};
}

bool is_merged_form(const Node& node) {
  return node.int_or("do_rotary", 0) == 0 && node.int_or("past_present_share_buffer", 0) == 0 &&
         has_heads(node, "num_heads");
}

bool of_merged(NodeWriter& writer, const Merged& in) {
  const Node& node = writer.node();
  const auto widths = widths_of(writer, in);
  if (!widths) return false;
  const std::string& x = node.inputs[0];
  const auto mask =
      added_for(writer, {.given = in.mask, .query = x, .key = x, .past = in.past, .past_axis = 3});
  if (!mask) return false;
  const std::string product = sum_of(writer, writer.add("MatMul", {in.x, in.weights}), in.bias);
  const auto parts = writer.add_of_several(
      "Split", {product, list_of(writer, "widths", Ints(widths->begin(), widths->end()))}, 3,
      {{"axis", std::int64_t{2}}}, kSplitSet);
  const auto part_of_past = [&](std::int64_t i) {
    if (in.past.empty()) return std::string();
    return writer.add("Gather", {in.past, int_of(writer, "part", i)}, {{"axis", std::int64_t{0}}});
  };
  const std::int64_t heads = node.int_or("num_heads", 0);
  Attended what{.query = parts[0],
                .key = parts[1],
                .value = parts[2],
                .mask = sum_of(writer, in.score_bias, *mask),
                .past_key = part_of_past(0),
                .past_value = part_of_past(1),
                .heads = heads,
                .kv_heads = heads,
                .is_causal = node.int_or("unidirectional", 0) != 0,
                .keeps = node.has_output(1)};
  const auto made = attend(writer, what);
  if (what.keeps) {
    const std::string keys = unsqueezed(writer, made[1], {0}), values = unsqueezed(writer, made[2], {0});
    writer.rename(writer.add("Concat", {keys, values}, {{"axis", std::int64_t{0}}}), node.outputs[1]);
  }
  writer.rename(made[0], node.outputs[0]);
  return true;
}

/// Adds the parts of one bias to queries, keys and values [batch, rows, width]. Returns false where their
/// widths are not known.
bool add_biases(NodeWriter& writer, const std::string& bias, const std::string& query,
                std::array<std::string*, 3> parts) {
  if (bias.empty()) return true;
  const auto all = known_size(writer, bias, 0);
  auto width = known_size(writer, query, 2);
  if (query.empty() && all) width = *all / 3;
  if (writer.rank_of(bias) != 1 || !all || !width || *all <= 2 * *width) return false;
  const Ints widths{*width, *width, *all - 2 * *width};
  std::vector<std::string> biases;
  if (const Tensor* held = writer.graph().constant(bias); held && held->type() == ElementType::kFloat) {
    const std::vector<float> values = held->to_floats();
    std::span<const float> left = values;
    for (const std::int64_t size : widths) {
      biases.push_back(
          writer.constant("bias", Tensor::floats({size}, left.first(static_cast<std::size_t>(size)))));
      left = left.subspan(static_cast<std::size_t>(size));
    }
  } else {
    biases = writer.add_of_several("Split", {bias, list_of(writer, "widths", widths)}, 3,
                                   {{"axis", std::int64_t{0}}}, kSplitSet);
  }
  for (std::size_t i = 0; i < 3; ++i) *parts[i] = writer.add("Add", {*parts[i], biases[i]});
  return true;
}

/// Takes one of several values that are packed along axis 3, [batch, rows, heads, count, depth].
std::string unpacked(NodeWriter& writer, const std::string& packed, std::int64_t i) {
  const std::string part =
      writer.add("Gather", {packed, int_of(writer, "part", i)}, {{"axis", std::int64_t{3}}});
  return writer.add("Reshape", {part, list_of(writer, "together", {0, 0, -1})});
}

/// Whether it is known that there are more or fewer keys than queries. What `unidirectional` means then is
/// not documented: onnxruntime lets the last query see all keys, and no other one those behind it.
bool has_other_rows(const NodeWriter& writer, const std::string& query, const std::string& key,
                    bool has_heads_first) {
  const auto queries = known_size(writer, query, 1), keys = known_size(writer, key, has_heads_first ? 2 : 1);
  return queries && keys && *queries != *keys;
}

}  // namespace attention_bodies
}  // namespace

bool write_attention(NodeWriter& writer) {
  using namespace attention_bodies;
  const Node& node = writer.node();
  if (!is_merged_form(node) || !node.has_input(0) || !node.has_input(1) || node.has_input(6)) return false;
  if (!is_or_may_be_float32(writer, node.inputs[0])) return false;
  return of_merged(writer, {.x = node.inputs[0],
                            .weights = node.inputs[1],
                            .bias = writer.input(2),
                            .mask = writer.input(3),
                            .past = writer.input(4),
                            .score_bias = writer.input(5),
                            .weight_sizes = node.inputs[1]});
}

bool write_quantized_attention(NodeWriter& writer) {
  using namespace attention_bodies;
  const Node& node = writer.node();
  for (const std::size_t i : {0, 1, 2, 3, 4})
    if (!node.has_input(i)) return false;
  if (!is_merged_form(node) || !is_or_may_be_float32(writer, node.inputs[2])) return false;
  return of_merged(writer, {.x = writer.dequantized(node.inputs[0], node.inputs[3], writer.input(6)),
                            .weights = writer.dequantized(node.inputs[1], node.inputs[4], writer.input(7), 1),
                            .bias = node.inputs[2],
                            .mask = writer.input(5),
                            .past = writer.input(8),
                            .score_bias = "",
                            .weight_sizes = node.inputs[1]});
}

bool write_multi_head_attention(NodeWriter& writer) {
  using namespace attention_bodies;
  const Node& node = writer.node();
  const std::int64_t heads = node.int_or("num_heads", 0);
  const bool is_known = node.has_input(0) && has_heads(node, "num_heads") &&
                        node.has_input(6) == node.has_input(7) && !node.has_input(8) && !node.has_input(9) &&
                        !node.has_output(3);
  if (!is_known || !is_or_may_be_float32(writer, node.inputs[0])) return false;
  std::string query = node.inputs[0], key = writer.input(1), value = writer.input(2);
  const auto query_rank = writer.rank_of(query);
  bool has_heads_first = false;  // keys and values [batch, heads, rows, depth]
  std::string width_of = query;
  if (key.empty() && value.empty()) {
    if (query_rank != 5) return false;
    key = unpacked(writer, query, 1);
    value = unpacked(writer, query, 2);
    query = unpacked(writer, query, 0);
    width_of = "";
  } else {
    const auto key_rank = writer.rank_of(key);
    if (query_rank != 3 || !key_rank || value.empty() != (key_rank == 5)) return false;
    has_heads_first = key_rank == 4;
    if (key_rank == 5) {
      value = unpacked(writer, key, 1);
      key = unpacked(writer, key, 0);
    }
  }
  const bool is_causal = node.int_or("unidirectional", 0) != 0;
  if (is_causal && node.has_input(1) &&
      has_other_rows(writer, node.inputs[0], node.inputs[1], has_heads_first))
    return false;
  const std::string bias = writer.input(3);
  if (!add_biases(writer, bias, width_of, {&query, &key, &value})) return false;
  const auto mask = added_for(writer, {.given = writer.input(4),
                                       .query = node.inputs[0],
                                       .key = node.has_input(1) ? node.inputs[1] : node.inputs[0],
                                       .key_axis = has_heads_first ? 2 : 1,
                                       .past = writer.input(6)});
  if (!mask) return false;
  Attended what{.query = has_heads_first ? by_heads(writer, query, heads) : query,
                .key = key,
                .value = value,
                .mask = sum_of(writer, writer.input(5), *mask),
                .past_key = writer.input(6),
                .past_value = writer.input(7),
                .heads = has_heads_first ? 0 : heads,
                .kv_heads = has_heads_first ? 0 : heads,
                .is_causal = is_causal,
                .keeps = node.has_output(1) || node.has_output(2)};
  const auto made = attend(writer, what);
  for (const std::size_t i : {1, 2})
    if (node.has_output(i)) writer.rename(made[i], node.outputs[i]);
  writer.rename(has_heads_first ? heads_together(writer, made[0]) : made[0], node.outputs[0]);
  return true;
}

}  // namespace crumb::graph
