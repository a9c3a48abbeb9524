#include "formats/number/scale_format.h"

#include <algorithm>
#include <array>
#include <bit>

#include "formats/half.h"
#include "formats/number/minifloat.h"

namespace crumb {
namespace {

constexpr uint32_t kE8M0Zero = 255;

const NumberFormat& e4m3fn() {
  static const NumberFormat& format = *find_number_format("e4m3fn");
  return format;
}

uint32_t largest_pattern(ScaleFormat format) {
  switch (format) {
    case ScaleFormat::kF32: return 0x7F7FFFFF;
    case ScaleFormat::kF16: return 0x7BFF;
    case ScaleFormat::kBF16: return 0x7F7F;
    case ScaleFormat::kE8M0: return 254;
    case ScaleFormat::kE4M3: break;
  }
  return 0x7E;
}

/// Nearest power of two, ties to the even exponent byte, as rounding the float's bits would have it.
uint32_t encode_power_of_two(float scale) {
  if (scale < 0x1p-126f) return scale > 0x1.8p-127f ? 1 : 0;
  const auto bits = std::bit_cast<uint32_t>(scale);
  const uint32_t odd = (bits >> 23) & 1;
  return std::min<uint32_t>((bits + 0x3FFFFF + odd) >> 23, 255);
}

uint32_t round_to_pattern(ScaleFormat format, float scale) {
  switch (format) {
    case ScaleFormat::kF32: return std::bit_cast<uint32_t>(scale);
    case ScaleFormat::kF16: return float_to_f16(scale);
    case ScaleFormat::kBF16: return float_to_bf16(scale);
    case ScaleFormat::kE8M0: return encode_power_of_two(scale);
    case ScaleFormat::kE4M3: break;
  }
  return encode_minifloat(e4m3fn(), scale, Overflow::kSpecial);
}

}  // namespace

StoredScale encode_scale(ScaleFormat format, float scale) {
  const bool power_of_two = format == ScaleFormat::kE8M0;
  if (scale == 0.0f) return {power_of_two ? kE8M0Zero : 0, false};
  const uint32_t pattern = round_to_pattern(format, scale);
  if (pattern > largest_pattern(format)) return {largest_pattern(format), true};
  if (power_of_two) return {pattern, scale < 0x1p-128f};
  if (pattern == 0) return {1, true};
  return {pattern, false};
}

float decode_scale(ScaleFormat format, uint32_t pattern) {
  switch (format) {
    case ScaleFormat::kF32: return std::bit_cast<float>(pattern);
    case ScaleFormat::kF16: return f16_to_float(static_cast<uint16_t>(pattern));
    case ScaleFormat::kBF16: return bf16_to_float(static_cast<uint16_t>(pattern));
    case ScaleFormat::kE8M0:
      if (pattern == kE8M0Zero) return 0.0f;
      return pattern == 0 ? 0x1p-127f : std::bit_cast<float>(pattern << 23);
    case ScaleFormat::kE4M3: break;
  }
  static const std::array<float, 256> values = value_table(e4m3fn());
  return values[pattern & 0xFF];
}

uint32_t encode_float(ScaleFormat format, float value) {
  const uint32_t largest = largest_pattern(format);
  const uint32_t sign = format == ScaleFormat::kF32 ? 0x80000000u : 0x8000u;
  const uint32_t pattern = round_to_pattern(format, value);
  return (pattern & ~sign) > largest ? largest | (pattern & sign) : pattern;
}

}  // namespace crumb
