#include "graph/quantize/statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "base/split_mix.h"
#include "quant/code_grid.h"
#include "quant/search/scale_search.h"

namespace crumb::graph {
namespace {

constexpr float kMomentum = 0.1F;
constexpr unsigned kBinShift = 15;  // of a float's bits: sign, exponent and 8 bits of mantissa remain

/// Returns bits in the order of the floats.
std::uint32_t ordered_bits(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000U;
}

float from_ordered_bits(std::uint32_t bits) {
  return std::bit_cast<float>(bits >> 31 != 0 ? bits & 0x7FFFFFFFU : ~bits);
}

/// Returns the 0-based index in sorted order of the 1-based index floor(p / 100 * n + 0.5), at least 1.
std::uint64_t index_of(std::uint64_t count, double p) {
  const auto n = static_cast<double>(count);
  return static_cast<std::uint64_t>(std::clamp(std::floor(p / 100 * n + 0.5), 1.0, n)) - 1;
}

ScaleAndZero search_of(const QuantSpec& spec, std::span<const float> values) {
  const CodeGrid grid = make_code_grid(*spec.number, spec.range, spec.round);
  const ScaleSearch search(spec, grid);
  const std::uint64_t n = values.size();
  const BlockFit fit = search.fit({.data = values.data(), .rows = 1, .cols = n, .stride = n, .index = 0});
  return {.scale = fit.scale, .zero_point = fit.zero};
}

/// With power-of-two scales, the nearest one may clip a third of the range. The mse search takes that into
/// account; the other searches get the least scale that covers the range.
ScaleAndZero fit_of(const QuantSpec& spec, std::span<const float> values) {
  if (spec.scale != ScaleFormat::kE8M0 || spec.search == Search::kMse) return search_of(spec, values);
  QuantSpec exact = spec;
  exact.scale = ScaleFormat::kF32;
  ScaleAndZero fit = search_of(exact, values);
  if (!(fit.scale > 0)) return fit;
  int exponent = 0;
  if (std::frexp(fit.scale, &exponent) == 0.5F) --exponent;
  fit.scale = std::ldexp(1.0F, std::clamp(exponent, -127, 127));
  return fit;
}

}  // namespace

ScaleAndZero scale_for(const QuantSpec& spec, float least, float greatest) {
  QuantSpec plain = spec;
  plain.search = Search::kAbsmax;
  const std::array<float, 2> ends = {least, greatest};
  return fit_of(plain, ends);
}

float shift_of(const QuantSpec& spec, float zero_point) {
  return spec.number->grid == Grid::kHalfInteger ? -0.5F : zero_point;
}

bool saturates(const QuantSpec& spec, float scale, float zero_point, float x) {
  const NumberFormat& number = *spec.number;
  if (number.grid == Grid::kBinary) return false;
  if (number.grid == Grid::kMinifloat) {
    // As for integers, a value that rounds to the largest one is not cut off: one half a step beyond it is.
    const float largest = number.largest_value(spec.range);
    return std::fabs(x / scale) >= largest + std::ldexp(0.5F, std::ilogb(largest) - number.mantissa_bits);
  }
  const float code = round_to_integer(x / scale + shift_of(spec, zero_point), spec.round);
  return code < static_cast<float>(number.least_code(spec.range)) ||
         code > static_cast<float>(number.greatest_code(spec.range));
}

void EdgeStatistics::add(std::span<const float> values) {
  const bool samples = spec_.search == Search::kMse || spec_.search == Search::kPercentile;
  const bool counts = spec_.search == Search::kPercentile;
  float least = 0, greatest = 0;
  bool first = true;
  for (const float x : values) {
    if (!std::isfinite(x)) {
      ++not_finite_;
      continue;
    }
    least = first ? x : std::min(least, x);
    greatest = first ? x : std::max(greatest, x);
    first = false;
    if (samples) sample(x);
    if (counts) count_bin(x);
    ++count_;
  }
  if (first) return;
  const bool is_first = !moves_;
  moves_ = true;
  least_ = is_first ? least : std::min(least_, least);
  greatest_ = is_first ? greatest : std::max(greatest_, greatest);
  const auto move = [&](float& average, float x) {
    average = is_first ? x : (1 - kMomentum) * average + kMomentum * x;
  };
  move(moving_least_, least);
  move(moving_greatest_, greatest);
  move(moving_most_, std::max(std::fabs(least), std::fabs(greatest)));
}

void EdgeStatistics::sample(float x) {
  const std::uint64_t mark = split_mix(count_);
  if ((mark & ((std::uint64_t{1} << thinned_) - 1)) != 0) return;
  sample_.push_back(x);
  marks_.push_back(mark);
  if (sample_.size() > kSample) thin();
}

void EdgeStatistics::thin() {
  ++thinned_;
  const std::uint64_t mask = (std::uint64_t{1} << thinned_) - 1;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < sample_.size(); ++i) {
    if ((marks_[i] & mask) != 0) continue;
    sample_[kept] = sample_[i];
    marks_[kept++] = marks_[i];
  }
  sample_.resize(kept);
  marks_.resize(kept);
}

void EdgeStatistics::count_bin(float x) {
  const std::uint32_t bin = ordered_bits(x) >> kBinShift;
  std::unique_ptr<Page>& page = pages_[bin >> 8];
  if (!page) page = std::make_unique<Page>();
  ++(*page)[bin & 255U];
}

ScaleAndZero EdgeStatistics::fit() const {
  if (count_ == 0) return {};
  switch (spec_.search) {
    case Search::kMse: return fit_sample();
    case Search::kPercentile: return thinned_ == 0 ? fit_sample() : fit_counts();
    case Search::kEma:
      if (spec_.zero != ZeroPoint::kNone) return scale_for(spec_, moving_least_, moving_greatest_);
      return scale_for(spec_, moving_most_, moving_most_);
    case Search::kAbsmax:
    case Search::kHqo:
    case Search::kLsq:
    case Search::kKmeans: break;
  }
  return scale_for(spec_, least_, greatest_);
}

ScaleAndZero EdgeStatistics::fit_sample() const {
  std::vector<float> values = sample_;
  if (thinned_ > 0) {
    values.push_back(least_);
    values.push_back(greatest_);
  }
  return fit_of(spec_, values);
}

ScaleAndZero EdgeStatistics::fit_counts() const {
  if (spec_.zero == ZeroPoint::kNone) {
    const float most = magnitude_at(index_of(count_, spec_.percentile));
    return most > 0 ? scale_for(spec_, most, most) : scale_for(spec_, least_, greatest_);
  }
  const float high = std::max(value_at(index_of(count_, spec_.percentile)), 0.0F);
  const float low = std::min(value_at(index_of(count_, 100 - spec_.percentile)), 0.0F);
  return high > low ? scale_for(spec_, low, high) : scale_for(spec_, least_, greatest_);
}

float EdgeStatistics::magnitude_at(std::uint64_t index) const {
  std::map<std::uint32_t, std::uint64_t> counts;  // keyed by magnitude
  for (std::uint32_t upper = 0; upper < kPages; ++upper) {
    const Page* page = pages_[upper].get();
    for (std::uint32_t lower = 0; page && lower < page->size(); ++lower) {
      if ((*page)[lower] == 0) continue;
      const float x = from_ordered_bits((upper << 8 | lower) << kBinShift);
      counts[(std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFU) >> kBinShift] += (*page)[lower];
    }
  }
  for (const auto& [bin, count] : counts) {
    if (index >= count) {
      index -= count;
      continue;
    }
    const std::uint32_t last = (bin << kBinShift) | ((1U << kBinShift) - 1);
    return std::min(std::bit_cast<float>(last), std::max(std::fabs(least_), std::fabs(greatest_)));
  }
  return std::max(std::fabs(least_), std::fabs(greatest_));
}

float EdgeStatistics::value_at(std::uint64_t index) const {
  for (std::uint32_t upper = 0; upper < kPages; ++upper) {
    const Page* page = pages_[upper].get();
    for (std::uint32_t lower = 0; page && lower < page->size(); ++lower) {
      const std::uint64_t count = (*page)[lower];
      if (index >= count) {
        index -= count;
        continue;
      }
      const std::uint32_t first = (upper << 8 | lower) << kBinShift;
      const std::uint32_t last = first | ((1U << kBinShift) - 1);
      const bool is_negative = first >> 31 == 0;  // starts at the end that is farther from 0
      return std::clamp(from_ordered_bits(is_negative ? first : last), least_, greatest_);
    }
  }
  return greatest_;
}

}  // namespace crumb::graph
