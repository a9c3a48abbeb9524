// Fixed-point numbers, as hls4ml's types hold them: whole multiples of a power of two between two of them.
#pragma once

#include <optional>
#include <span>
#include <string>

namespace crumb::exporting::hls4ml {

/// Numbers of which each is a whole multiple of 2^exponent from low to high.
struct FixedRange {
  int exponent = 0;
  double low = 0, high = 0;  ///< multiples of 2^exponent too

  /// Whether float32 holds each of them exactly, and so sums and products that stay in such ranges.
  bool is_exact_in_float32() const;

  bool operator==(const FixedRange&) const = default;
};

/// The coarsest range with these numbers; nothing where one of them is not finite. Of none: zero.
std::optional<FixedRange> range_of(std::span<const double> values);

/// Those of both.
FixedRange joined(const FixedRange& a, const FixedRange& b);

FixedRange sum(const FixedRange& a, const FixedRange& b);
FixedRange negated(const FixedRange& a);
FixedRange product(const FixedRange& a, const FixedRange& b);

/// "ap_fixed<W,I>" or "ap_ufixed<W,I>", the narrowest that holds the range: W bits, I of them before the
/// point, the sign among both. I may be negative, or above W.
std::string narrowest_type(const FixedRange& range);

/// The width of that type.
int bits_of(const FixedRange& range);

}  // namespace crumb::exporting::hls4ml
