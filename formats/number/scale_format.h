// Formats in which scales (and float zero points) are stored. A scale is non-negative; encoding rounds half
// to even, and a positive value that the format cannot hold saturates: to the largest finite value, or to the
// smallest positive one.
//
//   f32 f16 bf16  IEEE, little-endian
//   e8m0          2^(byte - 127); OCP reserves byte 255 for NaN. Here 255 stands for scale 0, which occurs
//                 only for all-zero groups of a grid that has no zero or learns its values (other grids store
//                 byte 0 and zero codes)
//   e4m3          e4m3fn: OCP FP8, largest 448
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "formats/half.h"

namespace crumb {

enum class ScaleFormat : uint8_t { kF32, kF16, kBF16, kE8M0, kE4M3 };

struct ScaleFormatRow {
  ScaleFormat format;
  std::string_view name;
  int bytes;
};

/// Every scale format; indexed by the enumerator.
inline constexpr ScaleFormatRow kScaleFormats[] = {
    {ScaleFormat::kF32, "f32", 4},   {ScaleFormat::kF16, "f16", 2},   {ScaleFormat::kBF16, "bf16", 2},
    {ScaleFormat::kE8M0, "e8m0", 1}, {ScaleFormat::kE4M3, "e4m3", 1},
};

inline const ScaleFormatRow& scale_format_row(ScaleFormat format) {
  return kScaleFormats[static_cast<size_t>(format)];
}

inline constexpr uint32_t kE8M0Zero = 255;
extern const std::array<float, 256> kE4M3Values;  ///< of every byte

/// A scale's bit pattern in the low bytes of an integer, and whether it had to saturate.
struct StoredScale {
  uint32_t pattern = 0;
  bool saturated = false;
};

/// Encodes a finite scale >= 0. Zero becomes zero (e8m0: byte 255).
StoredScale encode_scale(ScaleFormat format, float scale);

/// The scale of a pattern; +0 for e8m0's 255. May be inf, NaN or negative when the bytes are hostile.
inline float decode_scale(ScaleFormat format, uint32_t pattern) {
  switch (format) {
    case ScaleFormat::kF32: return std::bit_cast<float>(pattern);
    case ScaleFormat::kF16: return f16_to_float(static_cast<uint16_t>(pattern));
    case ScaleFormat::kBF16: return bf16_to_float(static_cast<uint16_t>(pattern));
    case ScaleFormat::kE8M0:
      if (pattern == kE8M0Zero) return 0.0F;
      return pattern == 0 ? 0x1p-127F : std::bit_cast<float>(pattern << 23);
    case ScaleFormat::kE4M3: break;
  }
  return kE4M3Values[pattern & 0xFF];
}

/// decode_scale() of bytes[i * step] for each out[i], of a format of one byte.
void decode_scale_bytes(ScaleFormat format, const std::byte* bytes, uint64_t step, std::span<float> out);

/// A float zero point is kept in f16 or bf16 beside scales of that format, in f32 otherwise.
inline ScaleFormat zero_point_format(ScaleFormat scale) {
  return scale == ScaleFormat::kF16 || scale == ScaleFormat::kBF16 ? scale : ScaleFormat::kF32;
}

/// Encodes any finite float in f32, f16 or bf16, saturating. Precondition: not e8m0 or e4m3.
uint32_t encode_float(ScaleFormat format, float value);

}  // namespace crumb
