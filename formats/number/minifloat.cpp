#include "formats/number/minifloat.h"

#include <cmath>
#include <limits>

namespace crumb {
namespace {

int magnitude_mask(const NumberFormat& f) { return (1 << (f.bits - 1)) - 1; }

/// The NaN pattern of a format that has one; `has` tells.
uint8_t nan_pattern(const NumberFormat& f, bool& has) {
  has = f.specials != Specials::kNone;
  if (f.specials == Specials::kFnuz) return static_cast<uint8_t>(1 << (f.bits - 1));
  return static_cast<uint8_t>(magnitude_mask(f));
}

}  // namespace

uint8_t largest_finite_pattern(const NumberFormat& f) {
  switch (f.specials) {
    case Specials::kIeee: return static_cast<uint8_t>((((1 << f.exponent_bits) - 1) << f.mantissa_bits) - 1);
    case Specials::kFn: return static_cast<uint8_t>(magnitude_mask(f) - 1);
    case Specials::kNone:
    case Specials::kFnuz: break;
  }
  return static_cast<uint8_t>(magnitude_mask(f));
}

float decode_minifloat(const NumberFormat& f, uint8_t pattern) {
  const int magnitude = pattern & magnitude_mask(f);
  const bool negative = (pattern >> (f.bits - 1)) & 1;
  if (magnitude > largest_finite_pattern(f)) {
    const bool infinite = f.specials == Specials::kIeee && (magnitude & ((1 << f.mantissa_bits) - 1)) == 0;
    if (!infinite) return std::numeric_limits<float>::quiet_NaN();
    return negative ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
  }
  if (f.specials == Specials::kFnuz && negative && magnitude == 0) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  const int exponent = magnitude >> f.mantissa_bits;
  const int mantissa = magnitude & ((1 << f.mantissa_bits) - 1);
  const int significand = exponent == 0 ? mantissa : mantissa + (1 << f.mantissa_bits);
  const float value =
      std::ldexp(static_cast<float>(significand), (exponent == 0 ? 1 : exponent) - f.bias - f.mantissa_bits);
  return negative ? -value : value;
}

uint8_t encode_minifloat(const NumberFormat& f, float value, Overflow overflow, RoundingMode mode,
                         uint64_t index) {
  bool has_nan = false;
  const uint8_t nan = nan_pattern(f, has_nan);
  if (std::isnan(value)) return has_nan ? nan : 0;
  const bool negative = std::signbit(value);
  const int largest = largest_finite_pattern(f);
  int magnitude = 0;
  if (std::isinf(value)) {
    magnitude = largest + 1;
  } else if (value != 0.0F) {
    // The unit in the last place is 2^(exponent - M), never below that of the subnormals.
    const int exponent = std::max(std::ilogb(value), 1 - f.bias);
    const float units =
        std::fabs(round_to_integer(std::ldexp(value, f.mantissa_bits - exponent), mode, index));
    // Rounding up to the next binade carries into the exponent field by itself.
    const int64_t code =
        (static_cast<int64_t>(exponent + f.bias - 1) << f.mantissa_bits) + static_cast<int64_t>(units);
    magnitude = static_cast<int>(std::min<int64_t>(code, largest + 1));
  }
  if (magnitude > largest) {
    if (overflow == Overflow::kSpecial && f.specials == Specials::kIeee) {
      magnitude = largest + 1;
    } else if (overflow == Overflow::kSpecial && has_nan) {
      return f.specials == Specials::kFnuz || !negative ? nan
                                                        : static_cast<uint8_t>(nan | (1 << (f.bits - 1)));
    } else {
      magnitude = largest;
    }
  }
  if (f.specials == Specials::kFnuz && magnitude == 0) return 0;
  return static_cast<uint8_t>(magnitude | (negative ? 1 << (f.bits - 1) : 0));
}

}  // namespace crumb
