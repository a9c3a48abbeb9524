#include "runtime/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "base/threads/parallel.h"
#include "runtime/exact/functions.h"
#include "runtime/exact/products.h"
#include "runtime/meter.h"

namespace crumb::runtime {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::size_t kScores = std::size_t{1} << 16;  // of a block of queries, about
constexpr std::size_t kMostRows = 64;                  // queries in a block
constexpr std::size_t kWork = std::size_t{1} << 18;    // fewer multiplications are not worth a thread
constexpr std::size_t kLanes = exact::kPartialSums;

/// Values stored by columns: element (b, g, c, j) is at data[b * batch + g * head + c * column + j]. All are
/// finite: zeros stand for keys that have a value which is not finite.
struct Columns {
  const float* data = nullptr;
  std::size_t batch = 0, head = 0, column = 0;
  std::vector<std::vector<std::size_t>> odd;  ///< by [batch, kv_heads]: those keys
  std::shared_ptr<std::byte[]> memory;
};

bool is_finite(float x) { return std::fabs(x) <= std::numeric_limits<float>::max(); }

bool all_finite(const float* x, std::size_t count) {
  unsigned odd = 0;
  for (std::size_t i = 0; i < count; ++i) odd |= is_finite(x[i]) ? 0u : 1u;
  return odd == 0;
}

/// Transposes the values of one head, [keys, columns].
void turn(const Attention& a, const float* from, float* to) {
  constexpr std::size_t kTile = 16;
  for (std::size_t j = 0; j < a.keys; j += kTile) {
    for (std::size_t c = 0; c < a.value_depth; c += kTile) {
      for (std::size_t i = j; i < std::min(a.keys, j + kTile); ++i) {
        for (std::size_t k = c; k < std::min(a.value_depth, c + kTile); ++k)
          to[k * a.keys + i] = from[i * a.v.row + k * a.v.column];
      }
    }
  }
}

/// Replaces the values of each key of one head, [columns, keys], by zeros where one of them is not finite;
/// returns these keys.
std::vector<std::size_t> take_out_odd(const Attention& a, float* values) {
  std::vector<std::size_t> odd;
  if (all_finite(values, a.keys * a.value_depth)) return odd;
  for (std::size_t j = 0; j < a.keys; ++j) {
    bool finite = true;
    for (std::size_t c = 0; c < a.value_depth; ++c) finite = finite && is_finite(values[c * a.keys + j]);
    if (finite) continue;
    odd.push_back(j);
    for (std::size_t c = 0; c < a.value_depth; ++c) values[c * a.keys + j] = 0;
  }
  return odd;
}

/// Whether the values are stored by columns and are finite.
bool are_usable(const Attention& a) {
  bool usable = a.v.row == 1;
  for (std::size_t g = 0; usable && g < a.batch * a.kv_heads; ++g) {
    const float* const head = a.v.at(g / a.kv_heads, g % a.kv_heads, 0);
    if (a.finite) usable = a.finite[g] != 0;
    for (std::size_t c = 0; usable && !a.finite && c < a.value_depth; ++c)
      usable = all_finite(head + c * a.v.column, a.keys);
  }
  return usable;
}

Columns columns_of(const Attention& a, int threads) {
  const std::size_t groups = a.batch * a.kv_heads, size = a.keys * a.value_depth;
  Columns made{a.v.data, a.v.batch, a.v.head, a.v.column, {}, nullptr};
  made.odd.resize(groups);
  if (are_usable(a)) return made;
  made.memory = metered_memory(groups * size * sizeof(float));
  auto* const to = reinterpret_cast<float*>(made.memory.get());
  const std::size_t grain = std::max<std::size_t>(1, kWork / std::max<std::size_t>(size, 1));
  parallel_for(groups, grain, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t g = begin; g < end; ++g) {
      turn(a, a.v.at(g / a.kv_heads, g % a.kv_heads, 0), to + g * size);
      made.odd[g] = take_out_odd(a, to + g * size);
    }
  });
  made.data = to;
  made.batch = a.kv_heads * size;
  made.head = size;
  made.column = a.keys;
  return made;
}

/// sum_of() of adjacent numbers.
float sum(const float* x, std::size_t count) {
  float partial[kLanes] = {};
  std::size_t k = 0;
  for (; k + kLanes <= count; k += kLanes) {
    for (std::size_t i = 0; i < kLanes; ++i) partial[i] += x[k + i];
  }
  for (std::size_t i = 0; k + i < count; ++i) partial[i] += x[k + i];
  return exact::fold(partial);
}

/// Returns the largest number; skips NaN.
float largest(const float* x, std::size_t count) {
  float most[kLanes];
  std::fill_n(most, kLanes, kUnseen);
  std::size_t k = 0;
  for (; k + kLanes <= count; k += kLanes) {
    for (std::size_t i = 0; i < kLanes; ++i) most[i] = x[k + i] > most[i] ? x[k + i] : most[i];
  }
  for (std::size_t i = 0; k + i < count; ++i) most[i] = x[k + i] > most[i] ? x[k + i] : most[i];
  return *std::max_element(most, most + kLanes);
}

/// Runs a block of queries, one after the other, against the keys of one head.
class Block {
 public:
  Block(const Attention& a, const Columns& values) : a_(a), values_(values) {}

  /// Runs rows [begin, end) of the queries of kv head g: row r is query r % queries of its head r / queries.
  void run(std::size_t b, std::size_t g, std::size_t begin, std::size_t end) {
    b_ = b;
    g_ = g;
    rows_ = end - begin;
    width_ = 0;
    seen_.resize(rows_);
    for (std::size_t r = 0; r < rows_; ++r) {
      place(begin + r);
      seen_[r] = seen_keys();
      width_ = std::max(width_, seen_[r]);
    }
    if (a_.scores) width_ = a_.keys;
    make_scores(begin);
    for (std::size_t r = 0; r < rows_; ++r) {
      place(begin + r);
      weigh(scores_.data() + r * width_, seen_[r]);
    }
    add_up();
    for (std::size_t r = 0; r < rows_; ++r) {
      place(begin + r);
      const float* const from = made_.data() + r * a_.value_depth;
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

  /// Computes scores with the soft cap, [rows, width].
  void make_scores(std::size_t begin) {
    queries_.resize(rows_ * a_.depth);
    for (std::size_t r = 0; r < rows_; ++r) {
      place(begin + r);
      const float* const from = a_.q.at(b_, h_, i_);
      for (std::size_t c = 0; c < a_.depth; ++c) queries_[r * a_.depth + c] = from[c] * a_.scale;
    }
    scores_.resize(rows_ * width_);
    exact::multiply({.rows = rows_,
                     .columns = width_,
                     .terms = a_.depth,
                     .x = queries_.data(),
                     .x_stride = a_.depth,
                     .w = a_.k.at(b_, g_, 0),
                     .w_stride = a_.k.row,
                     .y = scores_.data(),
                     .y_row = width_},
                    1);
    const auto show_all = [&](ScoreStage stage) {
      for (std::size_t r = 0; r < rows_ && a_.scores && a_.stage == stage; ++r) {
        place(begin + r);
        show(scores_.data() + r * width_, stage);
      }
    };
    show_all(ScoreStage::kProduct);
    if (a_.softcap > 0) {
      for (float& s : scores_) s /= a_.softcap;
      exact::apply(exact::Function::kTanh, scores_, scores_);
      for (float& s : scores_) s *= a_.softcap;
    }
    show_all(ScoreStage::kCapped);
  }

  /// Turns scores into weights.
  void weigh(float* s, std::size_t seen) {
    if (a_.mask) {
      const std::size_t at = a_.mask.offset(b_, h_, i_);
      for (std::size_t j = 0; j < seen; ++j) {
        const std::size_t k = at + j * a_.mask.key;
        if (a_.mask.added) {
          s[j] = a_.mask.added[k] == kUnseen ? kUnseen : s[j] + a_.mask.added[k];
        } else if (!a_.mask.allowed[k]) {
          s[j] = kUnseen;
        }
      }
    }
    std::fill(s + seen, s + width_, kUnseen);
    show(s, ScoreStage::kMasked);
    const float most = largest(s, seen);
    if (most == kUnseen) {
      std::fill(s, s + width_, kNan);
    } else {
      for (std::size_t j = 0; j < seen; ++j) s[j] -= most;
      exact::apply(exact::Function::kExp, {s, seen}, {s, seen});
      std::fill(s + seen, s + width_, 0.0F);
      const float all = sum(s, seen);
      for (std::size_t j = 0; j < width_; ++j) s[j] /= all;
    }
    show(s, ScoreStage::kWeights);
  }

  void add_up() {
    made_.assign(rows_ * a_.value_depth, kNan);
    if (width_ == 0) return;
    exact::multiply({.rows = rows_,
                     .columns = a_.value_depth,
                     .terms = width_,
                     .x = scores_.data(),
                     .x_stride = width_,
                     .w = values_.data + b_ * values_.batch + g_ * values_.head,
                     .w_stride = values_.column,
                     .y = made_.data(),
                     .y_row = a_.value_depth},
                    1);
    const auto& odd = values_.odd[b_ * a_.kv_heads + g_];
    for (std::size_t r = 0; r < rows_ && !odd.empty(); ++r) {
      const float* const w = scores_.data() + r * width_;
      const bool weighs = std::ranges::any_of(odd, [&](std::size_t j) { return j < width_ && w[j] != 0; });
      if (weighs) add_up_odd(w, made_.data() + r * a_.value_depth);
    }
  }

  /// Adds up values that are not finite, which must not be multiplied by weights of zero.
  void add_up_odd(const float* w, float* to) const {
    for (std::size_t c = 0; c < a_.value_depth; ++c) {
      float partial[kLanes] = {};
      for (std::size_t j = 0; j < width_; ++j) {
        const float v = a_.v.at(b_, g_, j)[c * a_.v.column];
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
  const Columns& values_;
  std::size_t b_ = 0, g_ = 0, h_ = 0, i_ = 0;
  std::size_t rows_ = 0, width_ = 0;
  std::vector<std::size_t> seen_;
  std::vector<float> queries_, scores_, made_;
};

}  // namespace

void attend(const Attention& a, int threads) {
  const std::size_t rows = a.queries * (a.heads / a.kv_heads);
  if (a.batch == 0 || rows == 0) return;
  const Columns values = columns_of(a, threads);
  const std::size_t step = std::clamp<std::size_t>(kScores / std::max<std::size_t>(a.keys, 1), 2, kMostRows);
  const std::size_t blocks = (rows - 1) / step + 1;
  const std::size_t work =
      std::min(step, rows) * std::max<std::size_t>(a.keys, 1) * (a.depth + a.value_depth);
  parallel_for(a.batch * a.kv_heads * blocks,
               std::max<std::size_t>(1, kWork / std::max<std::size_t>(work, 1)), threads,
               [&](std::size_t begin, std::size_t end) {
                 Block block(a, values);
                 for (std::size_t t = begin; t < end; ++t) {
                   const std::size_t head = t / blocks, first = t % blocks * step;
                   block.run(head / a.kv_heads, head % a.kv_heads, first, std::min(rows, first + step));
                 }
               });
}

}  // namespace crumb::runtime
