#include "runtime/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "base/threads/parallel.h"
#include "runtime/attention/score_weights.h"
#include "runtime/exact/functions.h"
#include "runtime/exact/products.h"
#include "runtime/exact/term_products.h"
#include "runtime/meter.h"

namespace crumb::runtime {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::size_t kScores = std::size_t{1} << 16;  // of a block of queries, about
constexpr std::size_t kMostRows = 64;                  // queries in a block
constexpr std::size_t kWork = std::size_t{1} << 18;    // fewer multiplications are not worth a thread
constexpr std::size_t kFewRows = 8;  // of queries, which wait for keys and values from memory
constexpr std::size_t kLanes = exact::kPartialSums;

/// The keys in blocks.
struct BlockedKeys {
  HeadRows rows;
  std::vector<std::size_t> offsets;  ///< of a block's columns, in the order of exact::TermProducts
  std::shared_ptr<std::byte[]> memory;
};

/// The values, all of them finite: zeros stand for those of keys that have one which is not.
struct FiniteValues {
  HeadRows rows;
  std::vector<std::vector<std::size_t>> odd;  ///< by [batch, kv_heads]: those keys
  std::shared_ptr<std::byte[]> memory;
};

bool all_finite(const float* x, std::size_t count) {
  unsigned odd = 0;
  for (std::size_t i = 0; i < count; ++i)
    odd |= std::fabs(x[i]) <= std::numeric_limits<float>::max() ? 0u : 1u;
  return odd == 0;
}

/// Calls f(k) for the terms in the order of exact::TermProducts.
template <class F>
void for_terms(std::size_t terms, const F& f) {
  for (std::size_t partial = 0; partial < kLanes; ++partial)
    for (std::size_t k = partial; k < terms; k += kLanes) f(k);
}

BlockedKeys blocks_of(const Attention& a, int threads) {
  BlockedKeys made{a.k, {}, nullptr};
  const std::vector<std::size_t> places = places_in_block(a.depth);
  for_terms(a.depth, [&](std::size_t c) { made.offsets.push_back(places[c]); });
  if (a.k.order == RowOrder::kBlocks) return made;
  const std::size_t blocks = in_whole_blocks(a.keys) / kBlockRows, block = kBlockRows * a.depth;
  const std::size_t heads = a.batch * a.kv_heads;
  made.memory = metered_memory(heads * blocks * block * sizeof(float));
  auto* const to = reinterpret_cast<float*>(made.memory.get());
  made.rows = {to, a.kv_heads * blocks * block, blocks * block, a.depth, RowOrder::kBlocks};
  const auto write_block = [&](std::size_t head, std::size_t first, float* out) {
    const std::size_t count = std::min(kBlockRows, a.keys - first);
    const float* const from = a.k.at(head / a.kv_heads, head % a.kv_heads, first);
    for (std::size_t c = 0; c < a.depth; ++c) {
      for (std::size_t i = 0; i < count; ++i) out[places[c] + i] = from[i * a.k.row + c];
      for (std::size_t i = count; i < kBlockRows; ++i) out[places[c] + i] = 0;
    }
  };
  parallel_for(heads * blocks, std::max<std::size_t>(1, kWork / std::max<std::size_t>(block, 1)), threads,
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t t = begin; t < end; ++t)
                   write_block(t / blocks, t % blocks * kBlockRows, to + t * block);
               });
  return made;
}

bool is_head_finite(const Attention& a, std::size_t head) {
  if (a.finite) return a.finite[head] != 0;
  for (std::size_t j = 0; j < a.keys; ++j)
    if (!all_finite(a.v.at(head / a.kv_heads, head % a.kv_heads, j), a.value_depth)) return false;
  return true;
}

FiniteValues finite_values(const Attention& a) {
  const std::size_t heads = a.batch * a.kv_heads, size = a.keys * a.value_depth;
  FiniteValues made{a.v, {}, nullptr};
  made.odd.resize(heads);
  bool finite = true;
  for (std::size_t head = 0; finite && head < heads; ++head) finite = is_head_finite(a, head);
  if (finite) return made;
  made.memory = metered_memory(heads * size * sizeof(float));
  auto* to = reinterpret_cast<float*>(made.memory.get());
  made.rows = {to, a.kv_heads * size, size, a.value_depth};
  for (std::size_t head = 0; head < heads; ++head) {
    for (std::size_t j = 0; j < a.keys; ++j, to += a.value_depth) {
      const float* const from = a.v.at(head / a.kv_heads, head % a.kv_heads, j);
      const bool usable = all_finite(from, a.value_depth);
      if (!usable) made.odd[head].push_back(j);
      for (std::size_t c = 0; c < a.value_depth; ++c) to[c] = usable ? from[c] : 0;
    }
  }
  return made;
}

/// What a thread needs for a block of queries.
struct BlockMemory {
  std::vector<std::size_t> seen, offsets;
  std::vector<float> queries, scores, made;
};

/// Runs a block of queries against the keys of one head.
class Block {
 public:
  Block(const Attention& a, const BlockedKeys& keys, const FiniteValues& values, BlockMemory& memory)
      : a_(a), keys_(keys), values_(values), memory_(memory) {}

  /// Runs rows [begin, end) of the queries of kv head g: row r is query r % queries of its head r / queries.
  void run(std::size_t b, std::size_t g, std::size_t begin, std::size_t end) {
    b_ = b;
    g_ = g;
    rows_ = end - begin;
    width_ = 0;
    memory_.seen.resize(rows_);
    for (std::size_t r = 0; r < rows_; ++r) {
      place(begin + r);
      memory_.seen[r] = seen_keys();
      width_ = std::max(width_, memory_.seen[r]);
    }
    if (a_.scores) width_ = a_.keys;
    stride_ = in_whole_blocks(width_);
    make_scores(begin);
    for (std::size_t r = 0; r < rows_; ++r) {
      place(begin + r);
      weigh(memory_.scores.data() + r * stride_, memory_.seen[r]);
    }
    add_up();
    for (std::size_t r = 0; r < rows_; ++r) {
      place(begin + r);
      const float* const from = memory_.made.data() + r * a_.value_depth;
      float* const to = a_.y + b_ * a_.y_batch + h_ * a_.y_head + i_ * a_.y_row;
      for (std::size_t c = 0; c < a_.value_depth; ++c) to[c] = std::isnan(from[c]) ? kNan : from[c] + 0.0F;
    }
  }

 private:
  void place(std::size_t row) {
    h_ = g_ * (a_.heads / a_.kv_heads) + row / a_.queries;
    i_ = row % a_.queries;
  }

  /// Returns how many keys come before those that the query cannot see.
  std::size_t seen_keys() const {
    std::size_t end = a_.keys;
    if (a_.key_counts)
      end = std::min(end, static_cast<std::size_t>(std::max<std::int64_t>(a_.key_counts[b_], 0)));
    if (a_.causal) end = std::min(end, a_.past + i_ + 1);
    if (!a_.mask) return end;
    end = std::min(end, a_.mask.keys);
    const std::size_t at = a_.mask.offset(b_, h_, i_);
    const auto is_seen = [&](std::size_t j) {
      const std::size_t k = at + j * a_.mask.key;
      return a_.mask.added ? a_.mask.added[k] != kUnseen : a_.mask.allowed[k];
    };
    while (end > 0 && !is_seen(end - 1)) --end;
    return end;
  }

  /// Computes scores with the soft cap, [rows, stride]; those behind the width mean nothing.
  void make_scores(std::size_t begin) {
    memory_.queries.resize(rows_ * a_.depth);
    for (std::size_t r = 0; r < rows_; ++r) {
      place(begin + r);
      const float* const from = a_.q.at(b_, h_, i_);
      for (std::size_t c = 0; c < a_.depth; ++c) memory_.queries[r * a_.depth + c] = from[c] * a_.scale;
    }
    std::vector<float>& scores = memory_.scores;
    scores.resize(rows_ * stride_);
    exact::multiply_terms({.outputs = rows_,
                           .lines = stride_ / kBlockRows,
                           .positions = kBlockRows,
                           .terms = a_.depth,
                           .x = keys_.rows.at(b_, g_, 0),
                           .x_offsets = keys_.offsets.data(),
                           .x_line = kBlockRows * a_.depth,
                           .x_ahead = rows_ > kFewRows ? 0 : (rows_ > 1 ? 2 : 4) * kBlockRows * a_.depth,
                           .w = memory_.queries.data(),
                           .w_stride = a_.depth,
                           .y = scores.data(),
                           .y_stride = stride_,
                           .y_line = kBlockRows});
    const auto show_all = [&](ScoreStage stage) {
      for (std::size_t r = 0; r < rows_ && a_.scores && a_.stage == stage; ++r) {
        place(begin + r);
        show(scores.data() + r * stride_, stage);
      }
    };
    show_all(ScoreStage::kProduct);
    if (a_.softcap > 0) {
      for (float& s : scores) s /= a_.softcap;
      exact::apply(exact::Function::kTanh, scores, scores);
      for (float& s : scores) s *= a_.softcap;
    }
    show_all(ScoreStage::kCapped);
  }

  /// Turns scores into weights.
  void weigh(float* s, std::size_t seen) {
    if (a_.mask) mask(s, seen);
    if (a_.scores) std::fill(s + seen, s + width_, kUnseen);
    show(s, ScoreStage::kMasked);
    weigh_scores(seen, width_, s);
    show(s, ScoreStage::kWeights);
  }

  void mask(float* s, std::size_t seen) const {
    const std::size_t at = a_.mask.offset(b_, h_, i_), step = a_.mask.key;
    const float* const added = a_.mask.added ? a_.mask.added + at : nullptr;
    const bool* const allowed = added ? nullptr : a_.mask.allowed + at;
    if (step == 1) return mask_scores(added, allowed, seen, s);
    for (std::size_t j = 0; j < seen; ++j)
      mask_scores(added ? added + j * step : nullptr, added ? nullptr : allowed + j * step, 1, s + j);
  }

  void add_up() {
    memory_.made.assign(rows_ * a_.value_depth, kNan);
    if (width_ == 0) return;
    if (width_ != placed_) {
      placed_ = width_;
      memory_.offsets.clear();
      const HeadRows& rows = values_.rows;
      for_terms(width_, [&](std::size_t j) {
        memory_.offsets.push_back(static_cast<std::size_t>(rows.at(0, 0, j) - rows.data));
      });
    }
    exact::multiply_terms({.outputs = rows_,
                           .positions = a_.value_depth,
                           .terms = width_,
                           .x = values_.rows.at(b_, g_, 0),
                           .x_offsets = memory_.offsets.data(),
                           .x_ahead = rows_ > kFewRows ? 0 : values_.rows.strip,
                           .w = memory_.scores.data(),
                           .w_stride = stride_,
                           .y = memory_.made.data(),
                           .y_stride = a_.value_depth});
    const auto& odd = values_.odd[b_ * a_.kv_heads + g_];
    for (std::size_t r = 0; r < rows_ && !odd.empty(); ++r) {
      const float* const w = memory_.scores.data() + r * stride_;
      const bool weighs = std::ranges::any_of(odd, [&](std::size_t j) { return j < width_ && w[j] != 0; });
      if (weighs) add_up_odd(w, memory_.made.data() + r * a_.value_depth);
    }
  }

  /// Adds up values that are not finite, which must not be multiplied by weights of zero.
  void add_up_odd(const float* w, float* to) const {
    for (std::size_t c = 0; c < a_.value_depth; ++c) {
      float partial[kLanes] = {};
      for (std::size_t j = 0; j < width_; ++j) {
        const float v = a_.v.at(b_, g_, j)[c];
        if (w[j] != 0) partial[j % kLanes] = std::fma(w[j], v, partial[j % kLanes]);
      }
      to[c] = exact::fold(partial);
    }
  }

  void show(const float* s, ScoreStage stage) const {
    if (!a_.scores || a_.stage != stage) return;
    std::copy(s, s + a_.keys, a_.scores + ((b_ * a_.heads + h_) * a_.queries + i_) * a_.keys);
  }

  const Attention& a_;
  const BlockedKeys& keys_;
  const FiniteValues& values_;
  BlockMemory& memory_;
  std::size_t b_ = 0, g_ = 0, h_ = 0, i_ = 0;
  std::size_t rows_ = 0, width_ = 0, stride_ = 0;  ///< stride: of rows of scores, whole blocks of keys
  std::size_t placed_ = 0;                         ///< keys that the offsets are of
};

}  // namespace

std::vector<std::size_t> places_in_block(std::size_t depth) {
  std::vector<std::size_t> places(depth);
  for (std::size_t c = 0; c < depth; ++c) places[c] = exact::reads_before_term(c, depth) * kBlockRows;
  return places;
}

void attend(const Attention& a, int threads) {
  const std::size_t rows = a.queries * (a.heads / a.kv_heads);
  if (a.batch == 0 || rows == 0) return;
  const BlockedKeys keys = blocks_of(a, threads);
  const FiniteValues values = finite_values(a);
  const std::size_t step = std::clamp<std::size_t>(kScores / std::max<std::size_t>(a.keys, 1), 2, kMostRows);
  const std::size_t blocks = (rows - 1) / step + 1;
  const std::size_t work =
      std::min(step, rows) * std::max<std::size_t>(a.keys, 1) * (a.depth + a.value_depth);
  parallel_for(a.batch * a.kv_heads * blocks,
               std::max<std::size_t>(1, kWork / std::max<std::size_t>(work, 1)), threads,
               [&](std::size_t begin, std::size_t end) {
                 thread_local BlockMemory memory;
                 Block block(a, keys, values, memory);
                 for (std::size_t t = begin; t < end; ++t) {
                   const std::size_t head = t / blocks, first = t % blocks * step;
                   block.run(head / a.kv_heads, head % a.kv_heads, first, std::min(rows, first + step));
                 }
               });
}

}  // namespace crumb::runtime
