// The grid of a quantizer, resolved: every constant that the inner loops of quant/loops need to convert
// scaled values to codes and back. Built once per tensor from a number format, a range, a rounding mode and,
// for learned codebooks, the codebook.
//
// The numeric contract (float32, one division, one addition, nothing fused):
//   integer       q = clamp(round(x / s + z), lo, hi)
//   half-integer  q = clamp(round(x / s - 0.5), lo, hi)
//   binary        1 where x / s >= 0, else 0
//   minifloat     nearest to x / s, ties to the even mantissa, saturating
//   codebook      nearest to x / s, ties to the lower code: the number of k with x / s > (c[k] + c[k+1]) / 2
//   decode        (value(code) - z) * s
// With ZeroPoint::kMinimum, m takes the part of z: q = clamp(round((x - m) / s), lo, hi), decode value(code)
// * s + m, every step rounded.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/number/encoding.h"
#include "formats/number/number_format.h"
#include "formats/number/rounding.h"

namespace crumb {

struct CodeGrid {
  const NumberFormat* number = nullptr;
  RoundingMode round;
  std::array<float, 256> values{};  ///< by bit pattern, before zero point and scale

  float lo = 0;      ///< integers and half-integers: least code
  float hi = 0;      ///< greatest code
  float offset = 0;  ///< added to x / s with the zero point: -0.5 for half-integers
  uint8_t mask = 0;  ///< the low `bits` bits

  std::vector<float> thresholds = {};  ///< codebooks: code = number of thresholds below x / s

  /// Whether the grid has a code whose value is zero.
  bool has_zero() const;
  /// Returns the pattern that an all-zero block gets: the zero point's, or the code of x / s = 0.
  uint8_t zero_pattern(float zero_point) const;
};

/// Precondition: `codebook` holds 2^bits ascending values where number.learned.
CodeGrid make_code_grid(const NumberFormat& number, Range range, RoundingMode round = {},
                        std::span<const float> codebook = {});

/// Scalar reference, one value: returns the pattern of x under scale s (> 0) and zero point z. `index` is the
/// element's index in its tensor (stochastic rounding only).
uint8_t encode_ref(const CodeGrid& grid, float x, float s, float z, uint64_t index = 0);

/// Scalar reference: returns the value of a pattern.
inline float decode_ref(const CodeGrid& grid, uint8_t pattern, float s, float z) {
  return (grid.values[pattern] - z) * s;
}

}  // namespace crumb
