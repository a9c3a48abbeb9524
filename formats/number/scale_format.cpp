#include "formats/number/scale_format.h"

#include <limits>

#include "base/processor.h"
#include "formats/number/scale_bytes.h"

namespace crumb {
namespace {

/// The pattern of the nearest e4m3fn number, ties to the even mantissa; 127 or more beyond the largest, 448.
/// Twin of encode_minifloat for scales. Precondition: scale > 0.
uint32_t encode_e4m3(float scale) {
  constexpr int kShift = 23 - 3, kRebias = (127 - 7) << 3;
  constexpr float kLeastNormal = 0x1p-6F;
  // A float with one unit in its last place where the subnormals have theirs: adding it rounds.
  constexpr float kMagic = 0x1p14F;
  if (scale < kLeastNormal) return std::bit_cast<uint32_t>(scale + kMagic) - std::bit_cast<uint32_t>(kMagic);
  const auto bits = std::bit_cast<uint32_t>(scale);
  return ((bits + (1u << (kShift - 1)) - 1 + ((bits >> kShift) & 1)) >> kShift) - kRebias;
}

constexpr float decode_e4m3(uint32_t pattern) {
  const uint32_t magnitude = pattern & 0x7F;
  const float size = magnitude == 0x7F ? std::numeric_limits<float>::quiet_NaN()
                     : magnitude < 8   ? static_cast<float>(magnitude) * 0x1p-9F
                                       : std::bit_cast<float>((magnitude << 20) + (120u << 23));
  return (pattern & 0x80) != 0 && magnitude != 0x7F ? -size : size;
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
  if (scale < 0x1p-126F) return scale > 0x1.8p-127F ? 1 : 0;
  const auto bits = std::bit_cast<uint32_t>(scale);
  const uint32_t odd = (bits >> 23) & 1;
  return (bits + 0x3FFFFF + odd) >> 23;
}

uint32_t round_to_pattern(ScaleFormat format, float scale) {
  switch (format) {
    case ScaleFormat::kF32: return std::bit_cast<uint32_t>(scale);
    case ScaleFormat::kF16: return float_to_f16(scale);
    case ScaleFormat::kBF16: return float_to_bf16(scale);
    case ScaleFormat::kE8M0: return encode_power_of_two(scale);
    case ScaleFormat::kE4M3: break;
  }
  return encode_e4m3(scale);
}

}  // namespace

constexpr std::array<float, 256> kE4M3Values = [] {
  std::array<float, 256> values;
  for (uint32_t pattern = 0; pattern < values.size(); ++pattern) values[pattern] = decode_e4m3(pattern);
  return values;
}();

StoredScale encode_scale(ScaleFormat format, float scale) {
  const bool power_of_two = format == ScaleFormat::kE8M0;
  if (scale == 0.0F) return {power_of_two ? kE8M0Zero : 0, false};
  const uint32_t pattern = round_to_pattern(format, scale);
  if (pattern > largest_pattern(format)) return {largest_pattern(format), true};
  if (power_of_two) return {pattern, scale < 0x1p-128F};
  if (pattern == 0) return {1, true};
  return {pattern, false};
}

uint32_t encode_float(ScaleFormat format, float value) {
  const uint32_t largest = largest_pattern(format);
  const uint32_t sign = format == ScaleFormat::kF32 ? 0x80000000u : 0x8000u;
  const uint32_t pattern = round_to_pattern(format, value);
  return (pattern & ~sign) > largest ? largest | (pattern & sign) : pattern;
}

namespace {

// The values of patterns without a branch, so that compilers make vectors of loops over them.

inline float e8m0_value(uint32_t pattern) {
  const uint32_t bits = pattern == 0 ? 0x00400000U : pattern << 23;
  return std::bit_cast<float>(pattern == kE8M0Zero ? 0U : bits);
}

/// The significand times a power of two, both exact; the power is NaN where the value is.
inline float e4m3_value(uint32_t pattern) {
  constexpr auto kNaN = std::bit_cast<uint32_t>(std::numeric_limits<float>::quiet_NaN());
  const uint32_t magnitude = pattern & 0x7F, is_normal = magnitude < 8 ? 0U : 1U;
  const uint32_t significand = (magnitude & 7) | is_normal << 3, exponent = (magnitude >> 3) - is_normal;
  const uint32_t power = magnitude == 0x7F ? kNaN : (exponent + 118) << 23;
  const uint32_t sign = magnitude == 0x7F ? 0U : (pattern & 0x80) << 24;
  const float size = static_cast<float>(static_cast<int32_t>(significand)) * std::bit_cast<float>(power);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(size) | sign);
}

template <float (*kValue)(uint32_t)>
void decode_bytes(const std::byte* bytes, uint64_t step, std::span<float> out) {
  if (step == 1) {
    for (uint64_t i = 0; i < out.size(); ++i) out[i] = kValue(std::to_integer<uint32_t>(bytes[i]));
  } else {
    for (uint64_t i = 0; i < out.size(); ++i) out[i] = kValue(std::to_integer<uint32_t>(bytes[i * step]));
  }
}

}  // namespace

void decode_scale_bytes(ScaleFormat format, const std::byte* bytes, uint64_t step, std::span<float> out) {
  if (format == ScaleFormat::kE8M0) return decode_bytes<e8m0_value>(bytes, step, out);
  const uint64_t done =
      step == 1 && may_use(Isa::kAvx2) ? decode_e4m3_avx2(bytes, out.size(), out.data()) : 0;
  decode_bytes<e4m3_value>(bytes + done * step, step, out.subspan(done));
}

}  // namespace crumb
