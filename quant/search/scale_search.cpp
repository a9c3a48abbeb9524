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
#include "quant/search/block_runs.h"

namespace crumb {
namespace {

constexpr int kLsqSteps = 50;
constexpr float kNvfp4Range = 2688.0F;  // 448 * 6: largest block scale times largest element

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

/// Returns the power of two that scales values of this magnitude to about 1.
float unit_of(float absmax) {
  const int exponent = static_cast<int>(std::bit_cast<uint32_t>(absmax) >> 23) - 127;
  return std::bit_cast<float>((127 - std::clamp(exponent, -126, 126)) << 23);
}

}  // namespace

ScaleSearch::ScaleSearch(const QuantSpec& spec, const CodeGrid& grid, float tensor_absmax, int threads)
    : spec_(spec), grid_(grid), largest_(spec.number->largest_value(spec.range)), threads_(threads) {
  set_factors(tensor_absmax);
  rule_ = {.format = spec.scale,
           .largest = largest_,
           .tensor_scale = tensor_scale_,
           .multiplier = multiplier_,
           .least = 0x1p-100F,
           .greatest = 0x1p100F};
  if (spec.block_format && !spec.block_format->tensor_scale) {
    rule_.power_of_two = true;
    rule_.emax = spec.block_format->emax;
  }
  if (spec.scale == ScaleFormat::kF16) {
    rule_.least = std::ldexp(0x1p-14F, halvings_of_scale(spec));  // below, encode_scale() has its own steps
    rule_.greatest = 65504.0F;
  } else if (spec.scale == ScaleFormat::kE4M3) {
    rule_.least = 0x1p-9F;
    rule_.greatest = 448.0F;
  }
}

std::optional<ScaleRule> ScaleSearch::absmax_rule() const {
  if (spec_.search != Search::kAbsmax || spec_.zero != ZeroPoint::kNone || spec_.number->learned) return {};
  return rule_;
}

void ScaleSearch::set_factors(float tensor_absmax) {
  if (!spec_.block_format) return;
  if (spec_.block_format->scale_exponent != 0)
    multiplier_ = std::ldexp(1.0F, spec_.block_format->scale_exponent);
  if (spec_.block_format->tensor_scale) {
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
  if (with_zero && !with_minimum) {
    for_runs(block, [&](const float* x, uint64_t n, uint64_t) {
      loops().widen_range(x, n, &extent.low, &extent.high);
    });
  }
  if (with_minimum) {  // in order: which of 0 and -0 is the minimum depends on it
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
  if (spec_.search == Search::kHqo)
    return spec_.zero == ZeroPoint::kNone ? search_hqo_scale(block, start) : search_hqo_zero(block, start);
  return start;
}

}  // namespace crumb
