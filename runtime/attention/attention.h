// Scaled dot product attention, whose bits depend only on a query, the keys that it sees and their indices:
// not on other queries, threads, the batch, the instruction set, or on keys that it does not see.
//
// For query (b, h, i), which is multiplied by the keys of head h / (heads / kv_heads):
//
//   seen j    j < key_counts[b]; j <= past + i where causal; the mask covers j, and is neither false nor -inf
//   s_j       sum over c of (scale * q_c) * k_jc, by the definition of exact/products.h; with a soft cap C
//             then C * tanh(s / C); plus the mask's number
//   p_j       exp(s_j - the largest s of seen keys); 0 for keys that are not seen, whatever is stored there
//   w_j       p_j / sum of p, by sum_of() over the indices j
//   y_c       sum over j of w_j * v_jc by the same definition, over those j whose w_j is not 0; then + 0, so
//             that a zero is never negative
//
// A query that sees no key, or a score that is NaN, gives NaN. All of it is float32, however inputs are
// stored.
//
// So terms of zero change nothing, and the index of a key decides where its term is added: a sequence that
// comes at once and one that comes in steps have the same bits, as long as a key has the same index in both,
// and keys that a step does not have yet weigh nothing: by causal, by a mask of -inf or false, or by one that
// is so low (-1e9, the type's lowest) that exp gives zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "runtime/exact/term_products.h"

namespace crumb::runtime {

/// How the rows of a head lie: one after the other; or as caches have them, so that attend() reads them from
/// the first float to the last.
enum class RowOrder : std::uint8_t {
  kRows,
  kStrips,  ///< rows i, i + 16, ... one after the other: sixteen strips, in exact::kPartialOrder
  kBlocks,  ///< sixteen rows a block, whose numbers c are adjacent, in exact::reads_before_term()'s order
};

inline constexpr std::size_t kBlockRows = 16;  ///< strips, and rows of a block

constexpr std::size_t in_whole_blocks(std::size_t rows) {
  return (rows + kBlockRows - 1) / kBlockRows * kBlockRows;
}

/// By column c of rows of so many numbers, where a block's sixteen numbers are.
std::vector<std::size_t> places_in_block(std::size_t depth);

/// Row i of head (b, h) is at data[b * batch + h * head + i * row], in strips at data[b * batch + h * head +
/// kPartialOrder[i % 16] * strip + i / 16 * row]. In blocks element c of it is at data[b * batch + h * head +
/// i / 16 * 16 * row + reads_before_term(c, row) * 16 + i % 16], and the last block is whole. data may be
/// null where there are no elements.
struct HeadRows {
  const float* data = nullptr;
  std::size_t batch = 0, head = 0, row = 0;
  RowOrder order = RowOrder::kRows;
  std::size_t strip = 0;

  /// The row, or its block, of which it must be the first row.
  const float* at(std::size_t b, std::size_t h, std::size_t i) const {
    if (!data) return nullptr;
    const float* const first = data + b * batch + h * head;
    if (order != RowOrder::kStrips) return first + i * row;
    // The order is its own inverse.
    return first + exact::kPartialOrder[i % kBlockRows] * strip + i / kBlockRows * row;
  }
  float element(std::size_t b, std::size_t h, std::size_t i, std::size_t c) const {
    if (order != RowOrder::kBlocks) return at(b, h, i)[c];
    const std::size_t in_block = i % kBlockRows;
    return at(b, h, i - in_block)[exact::reads_before_term(c, row) * kBlockRows + in_block];
  }
};

/// Numbers to add, or whether keys are seen; strides are 0 along the axes that the mask broadcasts over.
struct AttentionMask {
  const float* added = nullptr;
  const bool* allowed = nullptr;
  std::size_t batch = 0, head = 0, row = 0, key = 0;
  std::size_t keys = 0;  ///< keys that the mask covers; no query sees later ones

  explicit operator bool() const { return added || allowed; }
  std::size_t offset(std::size_t b, std::size_t h, std::size_t i) const {
    return b * batch + h * head + i * row;
  }
};

/// Which values attend() may return in addition to the result, as ONNX numbers them (qk_matmul_output_mode).
enum class ScoreStage : std::uint8_t { kProduct, kCapped, kMasked, kWeights };

struct Attention {
  std::size_t batch = 0, heads = 0, kv_heads = 0;  ///< heads is a multiple of kv_heads, which is not 0
  std::size_t queries = 0, keys = 0, depth = 0, value_depth = 0;
  HeadRows q;  ///< as rows
  HeadRows k;  ///< as rows or in blocks
  HeadRows v;  ///< as rows or in strips
  /// By [batch, kv_heads], whether v is known to be finite; null where it is unknown.
  const char* finite = nullptr;
  AttentionMask mask;
  const std::int64_t* key_counts = nullptr;  ///< by batch; null: all
  bool causal = false;
  std::size_t past = 0;
  float scale = 1, softcap = 0;  ///< 0: no cap
  float* y = nullptr;            ///< [b, h, i] at b * y_batch + h * y_head + i * y_row, value_depth numbers
  std::size_t y_batch = 0, y_head = 0, y_row = 0;
  float* scores = nullptr;  ///< [batch, heads, queries, keys]; null where the caller needs none
  ScoreStage stage = ScoreStage::kProduct;
};

inline constexpr float kUnseen = -std::numeric_limits<float>::infinity();

/// Returns the mask's number for a key, or kUnseen.
inline float bias_of(const Attention& a, std::size_t b, std::size_t h, std::size_t i, std::size_t j) {
  if (a.key_counts && static_cast<std::int64_t>(j) >= a.key_counts[b]) return kUnseen;
  if (a.causal && j > a.past + i) return kUnseen;
  if (!a.mask) return 0;
  if (j >= a.mask.keys) return kUnseen;
  const std::size_t at = a.mask.offset(b, h, i) + j * a.mask.key;
  if (a.mask.added) return a.mask.added[at];
  return a.mask.allowed[at] ? 0 : kUnseen;
}

/// Computes y on up to so many threads (0: as many as the machine has). Takes memory for a few rows of scores
/// for each thread, and for copies: of k in blocks where it is not, of v where it is not finite. Throws
/// Stopped where the scope's meter refuses a copy.
void attend(const Attention& attention, int threads);

}  // namespace crumb::runtime
