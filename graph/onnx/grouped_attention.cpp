// GroupQueryAttention and RotaryEmbedding.
#include <limits>
#include <utility>

#include "graph/onnx/attention_operators.h"
#include "graph/onnx/attention_parts.h"
#include "graph/onnx/sizes_of_values.h"

namespace crumb::graph {
namespace {
namespace grouped_bodies {

using Ints = std::vector<std::int64_t>;
using Attributes = NodeWriter::Attributes;

constexpr std::int64_t kRotarySet = 23, kSplitSet = 13, kGatherNdSet = 12;
constexpr std::size_t kLengths = 5, kTotal = 6, kCosines = 7, kSines = 8, kPositions = 9, kScoreBias = 10;

/// Positions [batch, rows] of one offset: the offset, and those that follow.
std::string positions_from(NodeWriter& writer, const std::string& offset, const std::string& x,
                           std::int64_t row_axis) {
  const std::string line = writer.add("Add", {offset, counted_to(writer, size_of(writer, x, row_axis))});
  const std::string shape = writer.add(
      "Concat", {size_list_of(writer, x, 0), size_list_of(writer, x, row_axis)}, {{"axis", std::int64_t{0}}});
  return writer.add("Expand", {line, shape}, {}, 8);
}

/// The attributes of ONNX's RotaryEmbedding for so many heads.
Attributes rotation(std::int64_t heads, std::int64_t dim, bool is_interleaved) {
  Attributes made;
  if (heads > 0) made["num_heads"] = heads;
  if (dim > 0) made["rotary_embedding_dim"] = dim;
  if (is_interleaved) made["interleaved"] = std::int64_t{1};
  return made;
}

/// The values of GroupQueryAttention while it is written.
struct Grouped {
  std::int64_t heads, kv_heads;
  std::string query, key, value;  ///< [batch, rows, heads * depth]
  std::string before;             ///< [batch]: how many keys were there before
  std::string positions;          ///< of the rows, [batch, rows]
};

bool is_known_form(const Node& node) {
  for (const char* other : {"smooth_softmax", "qk_output", "sliding_window_cache", "kv_cache_bit_width"})
    if (node.int_or(other, 0) != 0) return false;
  for (const char* quantized : {"k_quant_type", "v_quant_type"})
    if (node.text_or(quantized, "NONE") != "NONE") return false;
  for (std::size_t i = kScoreBias + 1; i < node.inputs.size(); ++i)
    if (node.has_input(i)) return false;
  return node.has_input(0) && node.has_input(kLengths) && node.has_input(kTotal) && !node.has_output(3) &&
         node.has_input(1) == node.has_input(2) && node.has_input(3) == node.has_input(4) &&
         has_heads(node, "num_heads") && has_heads(node, "kv_num_heads") && node.int_or("causal", 1) == 1 &&
         (node.int_or("do_rotary", 0) == 0 || (node.has_input(kCosines) && node.has_input(kSines)));
}

/// Takes queries, keys and values apart where they are packed. Returns false where the width is not known.
bool unpack(NodeWriter& writer, Grouped& of) {
  if (!of.key.empty()) return true;
  const auto width = known_size(writer, of.query, 2);
  const std::int64_t all = of.heads + 2 * of.kv_heads;
  if (!width || *width % all != 0) return false;
  const std::int64_t depth = *width / all;
  const auto parts = writer.add_of_several(
      "Split",
      {of.query, list_of(writer, "widths", {of.heads * depth, of.kv_heads * depth, of.kv_heads * depth})}, 3,
      {{"axis", std::int64_t{2}}}, kSplitSet);
  of.query = parts[0];
  of.key = parts[1];
  of.value = parts[2];
  return true;
}

/// Input 5 has the lengths less one. The first rows of a sequence have nothing before them, even where
/// padding lies behind them.
void count(NodeWriter& writer, const std::string& x, Grouped& of) {
  const Node& node = writer.node();
  const std::string rows = size_of(writer, x, 1);
  const std::string which = node.inputs[kLengths] + ' ' + node.inputs[kTotal] + ' ' + rows;
  of.before = writer.once("before " + which, [&] {
    const std::string last =
        as_int64(writer, writer.add("Reshape", {node.inputs[kLengths], list_of(writer, "flat", {-1})}));
    const std::string behind = writer.add("Sub", {writer.add("Add", {last, int_of(writer, "one", 1)}), rows});
    const std::string total =
        as_int64(writer, writer.add("Reshape", {node.inputs[kTotal], list_of(writer, "flat", {-1})}));
    return writer.add("Where",
                      {writer.add("Equal", {total, rows}, {}, 11), int_of(writer, "none", 0), behind}, {}, 9);
  });
  of.positions = writer.once("positions " + which, [&] {
    return writer.add("Add", {unsqueezed(writer, of.before, {1}), counted_to(writer, rows)});
  });
}

/// Returns how many keys there are: as many as the longest sequence has, and no fewer than the past has.
std::string key_count(NodeWriter& writer, const std::string& past) {
  const std::string total = as_int64(
      writer,
      writer.add("Reshape", {writer.input(kTotal), writer.constant("single", Tensor::ints({0}, {}))}));
  if (past.empty()) return total;
  return writer.add("Max", {total, size_of(writer, past, 2)}, {}, 12);
}

/// Which of the past's keys, followed by the new ones, lies at each place: tuples of one index,
/// [batch, heads, places, 1]. A place behind the last key gets the last one, which nobody sees.
std::string places_of(NodeWriter& writer, const std::string& x, const std::string& past, const Grouped& of) {
  const std::string key = "places " + past + ' ' + of.before + ' ' + writer.input(kTotal);
  return writer.once(key, [&] {
    const std::string rows = size_of(writer, x, 1), kept = size_of(writer, past, 2);
    const std::string before = unsqueezed(writer, of.before, {1}), places = key_count(writer, past);
    const std::string line = counted_to(writer, places);
    const std::string shift = writer.add("Sub", {kept, before});
    const std::string moved = writer.add(
        "Where", {writer.add("Less", {line, before}, {}, 9), int_of(writer, "none", 0), shift}, {}, 9);
    const std::string last = writer.add("Sub", {writer.add("Add", {kept, rows}), int_of(writer, "one", 1)});
    const std::string from = writer.add("Min", {writer.add("Add", {line, moved}), last}, {}, 12);
    const std::string shape = writer.add("Concat",
                                         {size_list_of(writer, x, 0), list_of(writer, "heads", {of.kv_heads}),
                                          unsqueezed(writer, places, {0}), list_of(writer, "one", {1})},
                                         {{"axis", std::int64_t{0}}});
    return writer.add("Expand", {unsqueezed(writer, from, {1, 3}), shape}, {}, 8);
  });
}

/// Which keys each row sees: [batch, 1, rows, keys].
std::string seen_keys(NodeWriter& writer, const std::string& past, const Grouped& of) {
  const std::int64_t window = writer.node().int_or("local_window_size", -1);
  const std::string key =
      "seen " + of.positions + ' ' + past + ' ' + writer.input(kTotal) + ' ' + std::to_string(window);
  return writer.once(key, [&] {
    const std::string row = unsqueezed(writer, of.positions, {1, 3});
    const std::string line = counted_to(writer, key_count(writer, past));
    const std::string later = writer.add("Greater", {line, row}, {}, 9);
    std::string seen = writer.add("Not", {later});
    if (window > 0) {
      const std::string first = writer.add("Sub", {row, int_of(writer, "window", window)});
      seen = writer.add("And", {seen, writer.add("Greater", {line, first}, {}, 9)});
    }
    return seen;
  });
}

}  // namespace grouped_bodies
}  // namespace

bool write_group_query_attention(NodeWriter& writer) {
  using namespace grouped_bodies;
  const Node& node = writer.node();
  if (!is_known_form(node) || !is_or_may_be_float32(writer, node.inputs[0])) return false;
  Grouped of{.heads = node.int_or("num_heads", 0),
             .kv_heads = node.int_or("kv_num_heads", 0),
             .query = node.inputs[0],
             .key = writer.input(1),
             .value = writer.input(2),
             .before = "",
             .positions = ""};
  if (!unpack(writer, of)) return false;
  count(writer, node.inputs[0], of);
  std::string query = by_heads(writer, of.query, of.heads), key = by_heads(writer, of.key, of.kv_heads),
              value = by_heads(writer, of.value, of.kv_heads);
  if (node.int_or("do_rotary", 0) != 0) {
    const auto half = known_size(writer, node.inputs[kCosines], 1);
    if (!half) return false;
    const std::string positions = node.has_input(kPositions) ? node.inputs[kPositions] : of.positions;
    const bool is_interleaved = node.int_or("rotary_interleaved", 0) != 0;
    const auto turned = [&](const std::string& x, std::int64_t heads) {
      return writer.add("RotaryEmbedding", {x, node.inputs[kCosines], node.inputs[kSines], positions},
                        rotation(heads, 2 * *half, is_interleaved), kRotarySet);
    };
    query = turned(query, of.heads);
    key = turned(key, of.kv_heads);
  }
  const std::string past_key = writer.input(3), past_value = writer.input(4);
  if (!past_key.empty()) {
    const std::string places = places_of(writer, node.inputs[0], past_key, of);
    const auto joined = [&](const std::string& past, const std::string& now) {
      const std::string both = writer.add("Concat", {past, now}, {{"axis", std::int64_t{2}}});
      return writer.add("GatherND", {both, places}, {{"batch_dims", std::int64_t{2}}}, kGatherNdSet);
    };
    key = joined(past_key, key);
    value = joined(past_value, value);
  }
  std::string mask = seen_keys(writer, past_key, of);
  if (node.has_input(kScoreBias))
    mask = writer.add(
        "Where",
        {mask, node.inputs[kScoreBias], writer.number("unseen", -std::numeric_limits<float>::infinity())}, {},
        9);
  if (node.has_output(1)) key = writer.rename(key, node.outputs[1]);
  if (node.has_output(2)) value = writer.rename(value, node.outputs[2]);
  const auto made = attend(writer, {.query = query, .key = key, .value = value, .mask = mask});
  heads_together(writer, made[0]);
  return true;
}

bool write_rotary_embedding(NodeWriter& writer) {
  using namespace grouped_bodies;
  const Node& node = writer.node();
  for (const std::size_t i : {0, 1, 2, 3})
    if (!node.has_input(i)) return false;
  if (node.int_or("is_packed_batching", 0) != 0 || node.float_or("scale", 1) != 1) return false;
  const auto rank = writer.rank_of(node.inputs[0]), position_rank = writer.rank_of(node.inputs[1]);
  if (!rank || *rank < 3 || *rank > 4 || !position_rank || *position_rank < 1 || *position_rank > 2)
    return false;
  std::int64_t heads = node.int_or("num_heads", 0);
  if (*rank == 3 && heads == 0) {
    const auto width = known_size(writer, node.inputs[0], 2), half = known_size(writer, node.inputs[2], 1);
    if (!width || !half || *half < 1 || *width % (2 * *half) != 0) return false;
    heads = *width / (2 * *half);
  }
  const std::string positions =
      *position_rank == 2 ? node.inputs[1]
                          : positions_from(writer, node.inputs[1], node.inputs[0], *rank == 4 ? 2 : 1);
  writer.add("RotaryEmbedding", {node.inputs[0], node.inputs[2], node.inputs[3], positions},
             rotation(heads, node.int_or("rotary_embedding_dim", 0), node.int_or("interleaved", 0) != 0),
             kRotarySet);
  return true;
}

}  // namespace crumb::graph
