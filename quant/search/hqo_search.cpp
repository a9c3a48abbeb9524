// ScaleSearch's search=hqo.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/files/interrupt.h"
#include "quant/loops/loops.h"
#include "quant/search/block_runs.h"
#include "quant/search/scale_search.h"

namespace crumb {
namespace {

constexpr int kHqoSteps = 1000;
constexpr int kMostPasses = 12;  // over values to find a median near another; then they are partly sorted

/// HQQ's generalised soft threshold for the l_p norm.
float shrink(float error, float p, float beta) {
  const float size = std::fabs(error);
  if (size == 0) return 0;
  const float power = p == 0.5F ? 1 / std::sqrt(size) : std::pow(size, p - 1);
  return std::copysign(std::max(size - power / beta, 0.0F), error);
}

/// The least value above `x` (or below it, with a factor of -1), and how many there are of it.
struct NextValue {
  float value = std::numeric_limits<float>::infinity();
  size_t count = 0;

  NextValue(const std::vector<float>& values, float x, float factor) {
    for (const float v : values) {
      const float at = v * factor;
      value = at > x * factor && at < value ? at : value;
    }
    for (const float v : values) count += v * factor == value ? 1 : 0;
    value *= factor;
  }
};

/// The value at sorted position (n - 1) / 2, which is mostly near `guess`. May reorder the values.
float median_of(std::vector<float>& values, float guess) {
  const size_t rank = (values.size() - 1) / 2;
  size_t below = 0, same = 0;
  bool is_number = true;
  for (const float v : values) {
    below += v < guess ? 1 : 0;
    same += v == guess ? 1 : 0;
    is_number &= std::fabs(v) < std::numeric_limits<float>::infinity();
  }
  for (int pass = 0; is_number && pass < kMostPasses; ++pass) {
    if (below <= rank && rank < below + same) return guess;
    const bool rises = rank >= below;
    const NextValue next(values, guess, rises ? 1.0F : -1.0F);
    below = rises ? below + same : below - next.count;
    same = next.count;
    guess = next.value;
  }
  const auto middle = values.begin() + static_cast<ptrdiff_t>(rank);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// What a step finds in a block: the sum of |errors|, and the quotients whose median is the next scale.
class ScaleStep {
 public:
  ScaleStep(const CodeGrid& grid, uint64_t values) : grid_(grid) {
    const uint64_t room = std::min(values, kPiece);
    codes_.resize(room);
    for (std::vector<float>* floats : {&values_, &sizes_, &targets_, &quotients_}) floats->resize(room);
  }

  void begin(float scale, float beta) {
    scale_ = scale;
    beta_ = beta;
    absolute = 0;
    ratios.clear();
  }

  void add(const float* x, uint64_t n, uint64_t index) {
    loops().encode(grid_, x, n, scale_, 0, index, codes_.data());
    loops().decode(grid_, codes_.data(), n, 1, 0, values_.data());
    loops().hqo_step(x, values_.data(), n, scale_, kNorm - 1, beta_, sizes_.data(), targets_.data(),
                     quotients_.data());
    const size_t before = ratios.size();
    ratios.resize(before + n);
    float* to = ratios.data() + before;
    for (uint64_t i = 0; i < n; ++i) {
      absolute += static_cast<double>(sizes_[i]);
      if (std::isnan(targets_[i])) settle(x, i);
      *to = quotients_[i];
      to += static_cast<int>(targets_[i] != 0) & static_cast<int>(values_[i] != 0);  // without a branch
    }
    ratios.resize(static_cast<size_t>(to - ratios.data()));
  }

  double absolute = 0;
  std::vector<float> ratios;

 private:
  static constexpr float kNorm = 0.7F;

  /// A target that the powers of libraries may differ in.
  void settle(const float* x, uint64_t i) {
    targets_[i] = x[i] - shrink(x[i] - values_[i] * scale_, kNorm, beta_);
    quotients_[i] = targets_[i] / values_[i];
  }

  const CodeGrid& grid_;
  float scale_ = 0, beta_ = 0;
  std::vector<uint8_t> codes_;
  std::vector<float> values_, sizes_, targets_, quotients_;
};

}  // namespace

/// Without a zero point. Scales move along plateaus of the error, by steps that most scale formats cannot
/// hold: they stay float32 during the search and are stored at the end.
BlockFit ScaleSearch::search_hqo_scale(const BlockValues& block, const BlockFit& start) const {
  constexpr double kPlateau = 1 + 1e-6;
  double beta = 1e5, least = std::numeric_limits<double>::infinity();
  float best = start.scale, scale = start.scale;
  ScaleStep step(grid_, block.rows * block.cols);
  for (int i = 0; i < kHqoSteps; ++i, beta *= 1.01) {
    check_interrupt();
    step.begin(scale, static_cast<float>(beta));
    for_runs(block, [&](const float* x, uint64_t n, uint64_t index) {
      for_pieces(x, n, index,
                 [&](const float* some, uint64_t count, uint64_t first) { step.add(some, count, first); });
    });
    if (i > 0 && !(step.absolute <= least * kPlateau)) break;
    least = std::min(least, step.absolute);
    best = scale;
    if (step.ratios.empty()) break;
    scale = median_of(step.ratios, scale);
    if (!(scale > 0 && std::isfinite(scale))) break;
  }
  return with_scale(best, start);
}

BlockFit ScaleSearch::search_hqo_zero(const BlockValues& block, const BlockFit& start) const {
  constexpr float kNorm = 0.5F;
  double beta = 1.0, least = std::numeric_limits<double>::infinity();
  BlockFit best = start, current = start;
  std::vector<uint8_t> codes(std::min(block.rows * block.cols, kPiece));
  for (int step = 0; step < kHqoSteps; ++step, beta *= 1.01) {
    check_interrupt();
    double absolute = 0, zeros = 0;
    const auto visit = [&](const float* x, uint64_t n, uint64_t index) {
      loops().encode(grid_, x, n, current.scale, current.zero, index, codes.data());
      for (uint64_t i = 0; i < n; ++i) {
        const float value = grid_.values[codes[i]];
        const float error = x[i] - (value - current.zero) * current.scale;
        absolute += std::fabs(error);
        const float target = x[i] - shrink(error, kNorm, static_cast<float>(beta));
        zeros +=
            static_cast<double>(value) - static_cast<double>(target) / static_cast<double>(current.scale);
      }
    };
    for_runs(block, [&](const float* x, uint64_t n, uint64_t index) { for_pieces(x, n, index, visit); });
    if (step > 0 && !(absolute < least)) break;
    least = std::min(least, absolute);
    best = current;
    set_zero(current, static_cast<float>(zeros / static_cast<double>(block.rows * block.cols)));
  }
  return best;
}

}  // namespace crumb
