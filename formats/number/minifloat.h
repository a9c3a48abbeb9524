// Minifloats: sign, E exponent bits, M mantissa bits, bias B.
//   exponent field e > 0:  (-1)^sign * 2^(e - B) * (1 + m / 2^M)
//   exponent field e = 0:  (-1)^sign * 2^(1 - B) * m / 2^M            (subnormals, always on)
// The default bias is 2^(E-1) - 1 (2^(E-1) for the fnuz variants). Special codes: see Specials.
#pragma once

#include <cstdint>

#include "formats/number/number_format.h"
#include "formats/number/rounding.h"

namespace crumb {

/// What a value beyond the largest finite one becomes.
enum class Overflow : uint8_t {
  kSaturate,  ///< the largest finite value of its sign
  kSpecial,   ///< inf where the format has it, else NaN where it has that, else the largest finite value
};

/// The value of a bit pattern. Precondition: format.grid == Grid::kMinifloat.
float decode_minifloat(const NumberFormat& format, uint8_t pattern);

/// The pattern of the nearest representable value, ties to the even mantissa (other rounding modes act on the
/// magnitude in units of the last place, as QONNX's FloatQuant). NaN becomes the NaN code, or 0 where the
/// format has none. Scalar reference, kept beside the vector loops of quant/loops.
uint8_t encode_minifloat(const NumberFormat& format, float value, Overflow overflow = Overflow::kSaturate,
                         RoundingMode mode = {}, uint64_t index = 0);

/// The pattern of the largest finite magnitude (sign bit clear).
uint8_t largest_finite_pattern(const NumberFormat& format);

}  // namespace crumb
