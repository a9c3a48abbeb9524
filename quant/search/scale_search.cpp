#include "quant/search/scale_search.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/files/interrupt.h"
#include "base/threads/parallel.h"
#include "quant/codes/given_scales.h"

namespace crumb {
namespace {

constexpr size_t kMseSteps = 36;
constexpr size_t kMseCandidates = kMseSteps + 1;
constexpr int kLsqSteps = 50;
constexpr int kHqoSteps = 1000;
constexpr uint64_t kPiece = uint64_t{1} << 16;  // values that are encoded, or counted, at a time
constexpr float kNvfp4Range = 2688.0F;          // 448 * 6: largest block scale times largest element

/// Calls visit(pointer, count, index) for the contiguous runs of a block.
template <class Visit>
void for_runs(const BlockValues& block, const Visit& visit) {
  if (block.stream) {
    block.stream->rewind();
    uint64_t index = block.index;
    for (auto x = block.stream->next(block.slice); !x.empty(); x = block.stream->next(block.slice)) {
      check_interrupt();
      visit(x.data(), x.size(), index);
      index += x.size();
    }
    return;
  }
  if (block.cols == block.stride) return visit(block.data, block.rows * block.cols, block.index);
  for (uint64_t r = 0; r < block.rows; ++r) {
    visit(block.data + r * block.stride, block.cols, block.index + r * block.stride);
  }
}

/// Calls visit for the pieces, at most kPiece long, in which a run is encoded.
template <class Visit>
void for_pieces(const float* x, uint64_t n, uint64_t index, const Visit& visit) {
  for (uint64_t done = 0; done < n; done += kPiece) visit(x + done, std::min(kPiece, n - done), index + done);
}

/// Returns the 0-based index of the value at 1-based sorted position floor(p/100 * n + 0.5), at least the
/// first.
uint64_t percentile_index(uint64_t count, double p) {
  const auto n = static_cast<double>(count);
  return static_cast<uint64_t>(std::clamp(std::floor(p / 100 * n + 0.5), 1.0, n)) - 1;
}

/// Returns bits that are ordered as the floats are (-0 before +0).
uint32_t ordered_bits(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}
float from_ordered_bits(uint32_t bits) {
  return std::bit_cast<float>(bits >> 31 != 0 ? bits & 0x7FFFFFFFu : ~bits);
}

/// Returns the value at a 0-based sorted index among the block's values (or their magnitudes). Counts the
/// upper, then the lower half of their bits: two passes, whatever the block's size.
float value_at(const BlockValues& block, bool magnitudes, uint64_t rank) {
  uint32_t upper = 0;
  for (const bool lower : {false, true}) {
    std::vector<uint64_t> counts(size_t{1} << 16);
    for_runs(block, [&](const float* x, uint64_t n, uint64_t) {
      for (uint64_t i = 0; i < n; ++i) {
        const uint32_t bits = ordered_bits(magnitudes ? std::fabs(x[i]) : x[i]);
        if (!lower) {
          ++counts[bits >> 16];
        } else if (bits >> 16 == upper) {
          ++counts[bits & 0xFFFFu];
        }
      }
    });
    uint32_t digit = 0;
    for (; rank >= counts[digit]; ++digit) rank -= counts[digit];
    if (lower) return from_ordered_bits(upper << 16 | digit);
    upper = digit;
  }
  return 0;
}

float percentile_of(const BlockValues& block, bool magnitudes, double p) {
  const uint64_t count = block.rows * block.cols;
  const uint64_t rank = percentile_index(count, p);
  if (count > kPiece) return value_at(block, magnitudes, rank);
  std::vector<float> values;
  for_runs(block, [&](const float* x, uint64_t n, uint64_t) { values.insert(values.end(), x, x + n); });
  if (magnitudes) {
    for (float& v : values) v = std::fabs(v);
  }
  const auto at = values.begin() + static_cast<ptrdiff_t>(rank);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

float median_of(std::vector<float>& values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Returns 1.00, 0.98, ..., 0.30.
float mse_factor(size_t step) { return static_cast<float>(kMseSteps + 14 - step) / 50.0F; }

/// Returns the least power of two that is not below `ideal`: with it as the scale nothing is clipped.
float power_of_two_from(float ideal) {
  int exponent = 0;
  const float mantissa = std::frexp(ideal, &exponent);  // in [0.5, 1)
  return std::ldexp(1.0F, mantissa == 0.5F ? exponent - 1 : std::min(exponent, 127));
}

/// HQQ's generalised soft threshold for the l_p norm.
float shrink(float error, float p, float beta) {
  const float size = std::fabs(error);
  if (size == 0) return 0;
  const float power = p == 0.5F ? 1 / std::sqrt(size) : std::pow(size, p - 1);
  return std::copysign(std::max(size - power / beta, 0.0F), error);
}

/// Returns the power of two that scales values of this magnitude to about 1.
float unit_of(float absmax) { return std::ldexp(1.0F, -std::clamp(std::ilogb(absmax), -126, 126)); }

}  // namespace

ScaleSearch::ScaleSearch(const QuantSpec& spec, const CodeGrid& grid, float tensor_absmax, int threads)
    : spec_(spec), grid_(grid), largest_(spec.number->largest_value(spec.range)), threads_(threads) {
  if (!spec.block_format) return;
  if (spec.block_format->scale_exponent != 0)
    multiplier_ = std::ldexp(1.0F, spec.block_format->scale_exponent);
  if (spec.block_format->tensor_scale) {
    tensor_scale_ = tensor_absmax / kNvfp4Range;
    if (tensor_scale_ == 0 && tensor_absmax > 0) tensor_scale_ = std::numeric_limits<float>::denorm_min();
  }
}

float ScaleSearch::ideal_scale(const Extent& extent) const {
  if (spec_.zero != ZeroPoint::kNone) {
    const float steps = grid_.hi - grid_.lo, range = extent.high - extent.low;
    return std::isfinite(range) ? range / steps : extent.high / steps - extent.low / steps;
  }
  if (!spec_.block_format) return extent.most / largest_;
  if (spec_.block_format->tensor_scale) return extent.most / largest_ / tensor_scale_;
  return std::ldexp(1.0F, std::ilogb(extent.most) - spec_.block_format->emax);
}

ScaleSearch::Extent ScaleSearch::extent(const BlockValues& block, float absmax) const {
  const bool with_zero = spec_.zero != ZeroPoint::kNone;
  const bool with_minimum = spec_.zero == ZeroPoint::kMinimum;
  Extent extent{.most = absmax};
  if (with_minimum) extent = {.low = absmax, .high = -absmax, .most = absmax};
  if (with_zero) {
    for_runs(block, [&](const float* x, uint64_t n, uint64_t) {
      for (uint64_t i = 0; i < n; ++i) {
        extent.low = std::min(extent.low, x[i]);
        extent.high = std::max(extent.high, x[i]);
      }
    });
  }
  if (spec_.search != Search::kPercentile) return extent;
  if (!with_zero) {
    if (const float most = percentile_of(block, true, spec_.percentile); most > 0) extent.most = most;
    return extent;
  }
  float high = percentile_of(block, false, spec_.percentile);
  float low = percentile_of(block, false, 100 - spec_.percentile);
  if (!with_minimum) {
    high = std::max(high, 0.0F);
    low = std::min(low, 0.0F);
  }
  if (high > low) {
    extent.high = high;
    extent.low = low;
  }
  return extent;
}

void ScaleSearch::set_zero(BlockFit& fit, float ideal_zero) const {
  if (spec_.zero == ZeroPoint::kInteger) {
    fit.zero = std::clamp(std::nearbyint(ideal_zero), grid_.lo, grid_.hi);
    fit.zero_pattern = spec_.number->bits_of(static_cast<int>(fit.zero));
  } else if (spec_.zero != ZeroPoint::kNone) {
    const ScaleFormat format = zero_point_format(spec_.scale);
    fit.zero_pattern = encode_float(format, ideal_zero);
    fit.zero = decode_scale(format, fit.zero_pattern);
  }
}

/// Rounds a scale to its format and derives the zero point that goes with the stored scale.
BlockFit ScaleSearch::store(float ideal, const Extent& extent) const {
  // An ideal that underflows to zero saturates like one that the format cannot hold.
  const float bounded =
      std::clamp(ideal, std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::max());
  const StoredScale stored = encode_scale(spec_, bounded);
  BlockFit fit{.scale_pattern = stored.pattern, .saturated = stored.saturated || bounded != ideal};
  fit.scale = effective(stored.pattern);
  if (spec_.zero == ZeroPoint::kMinimum)
    set_zero(fit, extent.low);
  else if (spec_.zero != ZeroPoint::kNone && fit.scale > 0)
    set_zero(fit, grid_.lo - extent.low / fit.scale);
  return fit;
}

BlockFit ScaleSearch::with_scale(float scale, const BlockFit& zero_of) const {
  BlockFit fit = store(scale / tensor_scale_ / multiplier_, {});
  fit.zero = zero_of.zero;
  fit.zero_pattern = zero_of.zero_pattern;
  return fit;
}

double ScaleSearch::error(const BlockValues& block, const BlockFit& fit, float unit) const {
  check_interrupt();
  if (!(fit.scale > 0)) return std::numeric_limits<double>::infinity();
  if (block.stream) return stream_error(block, fit, unit);
  double sum = 0;
  for_runs(block, [&](const float* x, uint64_t n, uint64_t index) {
    sum += loops().squared_error(grid_, x, n, fit.scale, fit.zero, unit, index);
  });
  return sum;
}

/// The same as one call of squared_error over all the values, run by run, however the slices cut them.
double ScaleSearch::stream_error(const BlockValues& block, const BlockFit& fit, float unit) const {
  double sum = 0;
  std::vector<float> open;  // the values of a run that goes on in the next slice
  std::vector<double> runs;
  const auto error_of = [&](const float* x, uint64_t n, uint64_t index) {
    return loops().squared_error(grid_, x, n, fit.scale, fit.zero, unit, index);
  };
  for_runs(block, [&](const float* x, uint64_t n, uint64_t index) {
    if (!open.empty()) {
      const uint64_t missing = std::min<uint64_t>(kErrorRun - open.size(), n);
      open.insert(open.end(), x, x + missing);
      x += missing;
      n -= missing;
      index += missing;
      if (open.size() < kErrorRun) return;
      sum += error_of(open.data(), kErrorRun, index - kErrorRun);
      open.clear();
    }
    runs.resize(n / kErrorRun);
    parallel_for(runs.size(), 64, threads_, [&](size_t begin, size_t end) {
      for (size_t r = begin; r < end; ++r)
        runs[r] = error_of(x + r * kErrorRun, kErrorRun, index + r * kErrorRun);
    });
    for (const double run : runs) sum += run;
    open.assign(x + runs.size() * kErrorRun, x + n);
  });
  if (!open.empty())
    sum += error_of(open.data(), open.size(), block.index + block.rows * block.cols - open.size());
  return sum;
}

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

BlockFit ScaleSearch::search_mse(const BlockValues& block, const Extent& extent, float unit) const {
  if (block.stream) return search_mse_in_stream(block, extent, unit);
  constexpr size_t kAtATime = 4;
  check_interrupt();
  const float ideal = ideal_scale(extent);
  const auto candidate = [&](size_t i) { return store(mse_candidate(ideal, i), extent); };
  std::array<float, kMseCandidates> scales, zeros;
  std::array<size_t, kMseCandidates> numbers;  // indices of the candidates that differ from the one before
  size_t count = 0;
  uint32_t previous = 0;
  for (size_t i = 0; i < kMseCandidates; ++i) {
    const BlockFit fit = candidate(i);
    if (i > 0 && (fit.scale_pattern == previous || !(fit.scale > 0))) continue;
    previous = fit.scale_pattern;
    scales[count] = fit.scale;
    zeros[count] = fit.zero;
    numbers[count++] = i;
  }
  if (!(scales[0] > 0)) return candidate(0);
  // The cost of clipping the largest values alone shows that many small scales are worse than one tried
  // before.
  std::array<float, kErrorLanes> extremes;
  const uint64_t first_run = std::min<uint64_t>(kErrorRun, block.cols);
  loops().lane_extremes(block.data, first_run, extremes.data());
  double least = std::numeric_limits<double>::infinity();
  size_t best = 0;
  for (size_t k = 0; k < count; k += kAtATime) {
    const size_t here = std::min(kAtATime, count - k);
    const auto add_errors = [&](const float* x, uint64_t n, uint64_t index,
                                std::array<double, kAtATime>& sums) {
      loops().squared_errors(grid_, x, n, scales.data() + k, zeros.data() + k, here, unit, index,
                             sums.data());
    };
    if (k > 0 && spec_.round.rounding == Rounding::kHalfEven) {
      std::array<double, kAtATime> bounds{};
      add_errors(extremes.data(), std::min<uint64_t>(first_run, kErrorLanes), 0, bounds);
      if (*std::min_element(bounds.begin(), bounds.begin() + static_cast<ptrdiff_t>(here)) >= least) continue;
    }
    std::array<double, kAtATime> errors{};
    for_runs(block, [&](const float* x, uint64_t n, uint64_t index) { add_errors(x, n, index, errors); });
    for (size_t j = 0; j < here; ++j) {
      if (errors[j] < least) {
        least = errors[j];
        best = k + j;
      }
    }
  }
  return candidate(numbers[best]);
}

BlockFit ScaleSearch::search_lsq(const BlockValues& block, const BlockFit& start, float unit) const {
  BlockFit current = start;
  std::vector<uint8_t> codes(std::min(block.rows * block.cols, kPiece));
  for (int step = 0; step < kLsqSteps; ++step) {
    check_interrupt();
    double xv = 0, vv = 0;
    for_runs(block, [&](const float* run, uint64_t count, uint64_t first) {
      for_pieces(run, count, first, [&](const float* x, uint64_t n, uint64_t index) {
        loops().encode(grid_, x, n, current.scale, current.zero, index, codes.data());
        for (uint64_t i = 0; i < n; ++i) {
          const double v = static_cast<double>(grid_.values[codes[i]]) - static_cast<double>(current.zero);
          xv += static_cast<double>(x[i]) * v;
          vv += v * v;
        }
      });
    });
    if (!(xv > 0) || !(vv > 0)) break;
    const BlockFit next = with_scale(static_cast<float>(xv / vv), start);
    if (!(next.scale > 0)) return start;
    if (next.scale_pattern == current.scale_pattern) break;  // the codes stay, and so does the scale
    current = next;
  }
  return error(block, current, unit) < error(block, start, unit) ? current : start;
}

BlockFit ScaleSearch::search_hqo(const BlockValues& block, const BlockFit& start) const {
  const bool moves_zero = spec_.zero != ZeroPoint::kNone;
  const float p = moves_zero ? 0.5F : 0.7F;
  // Scales move along plateaus of the error, by steps that most scale formats cannot hold: they stay float32
  // during the search and are stored at the end.
  constexpr double kPlateau = 1 + 1e-6;
  double beta = moves_zero ? 1.0 : 1e5;
  BlockFit best = start;
  BlockFit current = start;
  double least = std::numeric_limits<double>::infinity();
  std::vector<float> ratios;
  std::vector<uint8_t> codes(std::min(block.rows * block.cols, kPiece));
  for (int step = 0; step < kHqoSteps; ++step, beta *= 1.01) {
    check_interrupt();
    double absolute = 0, zeros = 0;
    ratios.clear();
    const auto visit = [&](const float* x, uint64_t n, uint64_t index) {
      loops().encode(grid_, x, n, current.scale, current.zero, index, codes.data());
      for (uint64_t i = 0; i < n; ++i) {
        const float value = grid_.values[codes[i]];
        const float error = x[i] - (value - current.zero) * current.scale;
        absolute += std::fabs(error);
        const float target = x[i] - shrink(error, p, static_cast<float>(beta));
        if (moves_zero) {
          zeros +=
              static_cast<double>(value) - static_cast<double>(target) / static_cast<double>(current.scale);
        } else if (target != 0 && value != 0) {
          ratios.push_back(target / value);
        }
      }
    };
    for_runs(block, [&](const float* x, uint64_t n, uint64_t index) { for_pieces(x, n, index, visit); });
    const bool goes_on = step == 0 || (moves_zero ? absolute < least : absolute <= least * kPlateau);
    if (!goes_on) break;
    least = std::min(least, absolute);
    best = current;
    if (moves_zero) {
      set_zero(current, static_cast<float>(zeros / static_cast<double>(block.rows * block.cols)));
    } else {
      if (ratios.empty()) break;
      current.scale = median_of(ratios);
      if (!(current.scale > 0 && std::isfinite(current.scale))) break;
    }
  }
  return moves_zero ? best : with_scale(best.scale, start);
}

std::optional<ScaleRule> ScaleSearch::absmax_rule() const {
  if (spec_.search != Search::kAbsmax || spec_.zero != ZeroPoint::kNone || spec_.number->learned) return {};
  ScaleRule rule{
      .format = spec_.scale, .largest = largest_, .tensor_scale = tensor_scale_, .multiplier = multiplier_};
  if (spec_.block_format && !spec_.block_format->tensor_scale) {
    rule.power_of_two = true;
    rule.emax = spec_.block_format->emax;
  }
  rule.least = 0x1p-100F;
  rule.greatest = 0x1p100F;
  if (spec_.scale == ScaleFormat::kF16) {
    rule.least =
        std::ldexp(0x1p-14F, halvings_of_scale(spec_));  // below, encode_scale() has steps of its own
    rule.greatest = 65504.0F;
  } else if (spec_.scale == ScaleFormat::kE4M3) {
    rule.least = 0x1p-9F;
    rule.greatest = 448.0F;
  }
  return rule;
}

BlockFit ScaleSearch::fit(const BlockValues& block) const {
  uint32_t bits = 0;
  for_runs(block,
           [&](const float* x, uint64_t n, uint64_t) { bits = std::max(bits, loops().absmax_bits(x, n)); });
  if (bits >= kInfinityBits) return {.finite = false};
  if (bits == 0) {
    // Scale 0. Where e8m0 has no 0 and the grid has one, another scale with codes of zero has the same
    // values: the smallest, as in OCP's formats; 1 elsewhere, because a bias may be on the grid of this
    // scale. A codebook that is yet to be learned may have no zero.
    BlockFit fit;
    const bool says_zero = spec_.scale == ScaleFormat::kE8M0 && !spec_.number->learned && grid_.has_zero();
    const std::uint32_t pattern = spec_.block_format ? 0 : encode_scale(spec_.scale, 1.0F).pattern;
    fit.scale_pattern = says_zero ? pattern : encode_scale(spec_.scale, 0.0F).pattern;
    set_zero(fit, 0.0F);
    return fit;
  }
  const auto absmax = std::bit_cast<float>(bits);
  const Extent range = extent(block, absmax);
  if (spec_.zero == ZeroPoint::kMinimum) {
    if (range.low == range.high) {
      BlockFit constant{.scale_pattern = encode_scale(spec_.scale, 0.0F).pattern};
      set_zero(constant, range.low);
      return constant;
    }
    if (spec_.search == Search::kMse) return search_mse_with_minimum(block, range, unit_of(absmax));
  }
  if (spec_.search == Search::kMse) return search_mse(block, range, unit_of(absmax));
  const BlockFit start = store(ideal_scale(range), range);
  if (!(start.scale > 0)) return start;
  if (spec_.search == Search::kLsq) return search_lsq(block, start, unit_of(absmax));
  if (spec_.search == Search::kHqo) return search_hqo(block, start);
  return start;
}

}  // namespace crumb
