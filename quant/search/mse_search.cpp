// ScaleSearch's search=mse: the candidate whose squared error is least.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/files/interrupt.h"
#include "quant/loops/loops.h"
#include "quant/search/block_runs.h"
#include "quant/search/scale_search.h"

namespace crumb {
namespace {

constexpr size_t kMseSteps = 36;
constexpr size_t kMseCandidates = kMseSteps + 1;
constexpr size_t kAtATime = 4;  // candidates whose errors are found together

/// Returns 1.00, 0.98, ..., 0.30.
constexpr float mse_factor(size_t step) { return static_cast<float>(kMseSteps + 14 - step) / 50.0F; }

/// Returns the least power of two that is not below `ideal`: with it as the scale nothing is clipped.
float power_of_two_from(float ideal) {
  int exponent = 0;
  const float mantissa = std::frexp(ideal, &exponent);  // in [0.5, 1)
  return std::ldexp(1.0F, mantissa == 0.5F ? exponent - 1 : std::min(exponent, 127));
}

/// The value of largest magnitude: `most` or its negative where one of the lanes holds it.
float largest_of(const std::array<float, kErrorLanes>& lanes, float most) {
  int plus = 0, minus = 0;
  for (const float v : lanes) plus += v == most;
  for (const float v : lanes) minus += v == -most;
  if (plus > 0) return most;
  if (minus > 0) return -most;
  return *std::max_element(lanes.begin(), lanes.end(),
                           [](float a, float b) { return std::fabs(a) < std::fabs(b); });
}

constexpr size_t kMseRoom = (kMseCandidates + kErrorLanes - 1) / kErrorLanes * kErrorLanes;

/// The candidates over the ideal, the first two alike: of power-of-two scales the first is another. Ones fill
/// the last vector.
constexpr std::array<float, kMseRoom> kMseFactors = [] {
  std::array<float, kMseRoom> factors;
  factors.fill(1.0F);
  for (size_t i = 0; i < kMseSteps; ++i) factors[i + 1] = mse_factor(i);
  return factors;
}();

}  // namespace

float ScaleSearch::mse_candidate(float ideal, size_t i) const {
  if (i > 0) return ideal * mse_factor(i - 1);
  return spec_.scale == ScaleFormat::kE8M0 && ideal > 0 ? power_of_two_from(ideal) : ideal;
}

BlockFit ScaleSearch::search_mse_in_stream(const BlockValues& block, const Extent& extent, float unit) const {
  const float ideal = ideal_scale(extent);
  BlockFit best = store(mse_candidate(ideal, 0), extent);
  double least = error(block, best, unit);
  uint32_t previous = best.scale_pattern;
  for (size_t i = 1; i < kMseCandidates; ++i) {
    const BlockFit candidate = store(mse_candidate(ideal, i), extent);
    if (candidate.scale_pattern == previous) continue;
    previous = candidate.scale_pattern;
    if (const double e = error(block, candidate, unit); e < least) {
      least = e;
      best = candidate;
    }
  }
  return best;
}

BlockFit ScaleSearch::search_mse_with_minimum(const BlockValues& block, const Extent& extent,
                                              float unit) const {
  const float ideal = ideal_scale(extent), middle = extent.low / 2 + extent.high / 2;
  BlockFit best;
  double least = std::numeric_limits<double>::infinity();
  std::array<float, kErrorRun> shifted;
  for (size_t i = 0; i < kMseSteps; ++i) {
    check_interrupt();
    const float factor = mse_factor(i);
    Extent shrunk = extent;
    if (i > 0) shrunk.low = middle - (middle - extent.low) * factor;
    const BlockFit candidate = store(ideal * factor, shrunk);
    double sum = 0;
    for_runs(block, [&](const float* x, uint64_t n, uint64_t index) {
      for (uint64_t done = 0; done < n; done += kErrorRun) {
        const uint64_t count = std::min<uint64_t>(kErrorRun, n - done);
        for (uint64_t k = 0; k < count; ++k) shifted[k] = x[done + k] - candidate.zero;
        sum += loops().squared_error(grid_, shifted.data(), count, candidate.scale, 0, unit, index + done);
      }
    });
    if (sum < least || i == 0) {
      least = sum;
      best = candidate;
    }
  }
  return best;
}

/// The candidates whose pattern differs from that of the one before; the first one whatever it is.
struct ScaleSearch::Candidates {
  using Numbers = std::array<float, kMseRoom>;
  Numbers scales, zeros;
  Numbers least;                       ///< no candidate's error is smaller
  std::array<size_t, kMseRoom> steps;  ///< mse_candidate's
  size_t count = 0;
};

/// `most`: a value of the block, by which errors are bounded; with a zero point the range's ends are.
void ScaleSearch::find_candidates(const Extent& extent, float most, float unit, Candidates& found) const {
  const float ideal = ideal_scale(extent);
  // Nothing is set to 0 that need not be: for small blocks that would take as long as the errors.
  static constexpr Candidates::Numbers kZeros{};
  const bool has_zero = spec_.zero != ZeroPoint::kNone;
  Candidates::Numbers scales, made_zeros, errors[3];
  const Candidates::Numbers& zeros = has_zero ? made_zeros : kZeros;
  std::array<uint32_t, kMseRoom> patterns;
  const auto store_step = [&](size_t i) {
    const BlockFit fit = store(mse_candidate(ideal, i), extent);
    patterns[i] = fit.scale_pattern;
    scales[i] = fit.scale;
  };
  const bool all =
      loops().scaled_ideals(rule_, ideal, kMseFactors.data(), kMseRoom, patterns.data(), scales.data());
  const bool powers = spec_.scale == ScaleFormat::kE8M0;
  if (powers) store_step(0);
  for (size_t i = 0; !all && i < kMseCandidates; ++i)
    if (scales[i] < 0) store_step(i);
  if (has_zero) {
    made_zeros = kZeros;
    for (size_t i = 0; i < kMseCandidates; ++i) {
      BlockFit fit;
      if (scales[i] > 0) set_zero(fit, grid_.lo - extent.low / scales[i]);
      made_zeros[i] = fit.zero;
    }
  }
  size_t bounds = 0;
  for (const float x : {most, extent.low, extent.high}) {
    if (x == 0 || powers || !all) continue;  // powers of two leave few candidates
    loops().value_errors(grid_, x, scales.data(), zeros.data(), kMseRoom, unit, errors[bounds++].data());
  }
  for (size_t b = 1; b < bounds; ++b)
    for (size_t i = 0; i < kMseRoom; ++i) errors[0][i] = std::max(errors[0][i], errors[b][i]);
  const Candidates::Numbers& least = bounds > 0 ? errors[0] : kZeros;
  uint32_t previous = 0;
  for (size_t i = 0; i < kMseCandidates; ++i) {
    // Without a branch: whether patterns repeat is hard to predict.
    const bool keeps = i == 0 || (patterns[i] != previous && scales[i] > 0);
    found.steps[found.count] = i;
    found.scales[found.count] = scales[i];
    found.zeros[found.count] = zeros[i];
    found.least[found.count] = least[i];
    found.count += keeps ? 1 : 0;
    previous = keeps ? patterns[i] : previous;
  }
}

BlockFit ScaleSearch::search_mse(const BlockValues& block, const Extent& extent, float unit) const {
  if (block.stream) return search_mse_in_stream(block, extent, unit);
  check_interrupt();
  std::array<float, kErrorLanes> extremes;
  const uint64_t first_run = std::min<uint64_t>(kErrorRun, block.cols);
  loops().lane_extremes(block.data, first_run, extremes.data());
  Candidates candidates;
  const bool none = spec_.zero == ZeroPoint::kNone;
  find_candidates(extent, !none ? 0 : largest_of(extremes, extent.most), unit, candidates);
  size_t best = 0;
  if (candidates.scales[0] > 0) {
    best = best_of(candidates, block, {extremes.data(), std::min<uint64_t>(first_run, kErrorLanes)}, unit);
  }
  return store(mse_candidate(ideal_scale(extent), candidates.steps[best]), extent);
}

/// The index of the candidate whose error is least, the first of several. `extremes`: of the block's values.
size_t ScaleSearch::best_of(const Candidates& candidates, const BlockValues& block,
                            std::span<const float> extremes, float unit) const {
  const bool half_even = spec_.round.rounding == Rounding::kHalfEven;
  const bool has_bounds = half_even && block.rows * block.cols > 2 * kErrorLanes;
  double least = std::numeric_limits<double>::infinity();
  size_t best = 0;
  for (size_t k = 0; k < candidates.count;) {
    std::array<float, kAtATime> scales, zeros;
    std::array<size_t, kAtATime> numbers;
    size_t here = 0;
    for (; k < candidates.count && here < kAtATime; ++k) {
      if (static_cast<double>(candidates.least[k]) >= least) continue;
      scales[here] = candidates.scales[k];
      zeros[here] = candidates.zeros[k];
      numbers[here++] = k;
    }
    if (here == 0) break;
    // Four take no longer than three.
    for (size_t j = here; here > 1 && j < kAtATime; ++j) {
      scales[j] = scales[0];
      zeros[j] = zeros[0];
    }
    const size_t taken = here > 1 && half_even ? kAtATime : here;
    const auto add_errors = [&](const float* x, uint64_t n, uint64_t index,
                                std::array<double, kAtATime>& sums) {
      loops().squared_errors(grid_, x, n, scales.data(), zeros.data(), taken, unit, index, sums.data());
    };
    // The cost of clipping the largest values alone shows that many small scales are worse than one tried
    // before.
    if (has_bounds && numbers[0] > 0) {
      std::array<double, kAtATime> bounds{};
      add_errors(extremes.data(), extremes.size(), 0, bounds);
      if (*std::min_element(bounds.begin(), bounds.begin() + static_cast<ptrdiff_t>(here)) >= least) continue;
    }
    std::array<double, kAtATime> errors{};
    for_runs(block, [&](const float* x, uint64_t n, uint64_t index) { add_errors(x, n, index, errors); });
    for (size_t j = 0; j < here; ++j) {
      if (errors[j] < least) {
        least = errors[j];
        best = numbers[j];
      }
    }
  }
  return best;
}

}  // namespace crumb
