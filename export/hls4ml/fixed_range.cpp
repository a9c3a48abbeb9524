#include "export/hls4ml/fixed_range.h"

#include <algorithm>
#include <cmath>

#include "formats/number/power_of_two.h"

namespace crumb::exporting::hls4ml {
namespace {

constexpr double kFloatIntegers = 16777216;  // 2^24: float32 holds every integer up to it

bool is_zero(const FixedRange& range) { return range.low == 0 && range.high == 0; }

/// Zero is a multiple of everything.
int common_exponent(const FixedRange& a, const FixedRange& b) {
  if (is_zero(a)) return b.exponent;
  return is_zero(b) ? a.exponent : std::min(a.exponent, b.exponent);
}

struct Width {
  int bits = 1;
  bool is_signed = false;
};

Width width_of(const FixedRange& range) {
  const double low = std::ldexp(range.low, -range.exponent), high = std::ldexp(range.high, -range.exponent);
  Width width{.is_signed = low < 0};
  const auto holds = [&](int bits) {
    const double most = std::ldexp(1.0, bits - (width.is_signed ? 1 : 0));
    return high <= most - 1 && (!width.is_signed || low >= -most);
  };
  while (!holds(width.bits)) ++width.bits;
  return width;
}

}  // namespace

bool FixedRange::is_exact_in_float32() const {
  constexpr int kLeastExponent = -149;
  return exponent >= kLeastExponent &&
         std::max(std::fabs(low), std::fabs(high)) <= std::ldexp(kFloatIntegers, exponent);
}

std::optional<FixedRange> range_of(std::span<const double> values) {
  std::optional<FixedRange> range;
  bool has_zero = values.empty();
  for (const double value : values) {
    if (!std::isfinite(value)) return {};
    if (value == 0) {
      has_zero = true;
      continue;
    }
    const FixedRange one{lowest_bit(value), value, value};
    range = range ? joined(*range, one) : one;
  }
  if (!range) return FixedRange{};
  return has_zero ? FixedRange{range->exponent, std::min(range->low, 0.0), std::max(range->high, 0.0)}
                  : *range;
}

FixedRange joined(const FixedRange& a, const FixedRange& b) {
  return {common_exponent(a, b), std::min(a.low, b.low), std::max(a.high, b.high)};
}

FixedRange sum(const FixedRange& a, const FixedRange& b) {
  return {common_exponent(a, b), a.low + b.low, a.high + b.high};
}

FixedRange negated(const FixedRange& a) { return {a.exponent, -a.high, -a.low}; }

FixedRange product(const FixedRange& a, const FixedRange& b) {
  const auto [low, high] = std::minmax({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
  return {a.exponent + b.exponent, low, high};
}

int bits_of(const FixedRange& range) { return width_of(range).bits; }

std::string narrowest_type(const FixedRange& range) {
  const Width width = width_of(range);
  return std::string(width.is_signed ? "ap_fixed<" : "ap_ufixed<") + std::to_string(width.bits) + "," +
         std::to_string(width.bits + range.exponent) + ">";
}

}  // namespace crumb::exporting::hls4ml
