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

#include <cstdint>
#include <string_view>

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

/// A scale's bit pattern in the low bytes of an integer, and whether it had to saturate.
struct StoredScale {
  uint32_t pattern = 0;
  bool saturated = false;
};

/// Encodes a finite scale >= 0. Zero becomes zero (e8m0: byte 255).
StoredScale encode_scale(ScaleFormat format, float scale);

/// The scale of a pattern; +0 for e8m0's 255. May be inf, NaN or negative when the bytes are hostile.
float decode_scale(ScaleFormat format, uint32_t pattern);

/// A float zero point is kept in f16 or bf16 beside scales of that format, in f32 otherwise.
inline ScaleFormat zero_point_format(ScaleFormat scale) {
  return scale == ScaleFormat::kF16 || scale == ScaleFormat::kBF16 ? scale : ScaleFormat::kF32;
}

/// Encodes any finite float in f32, f16 or bf16, saturating. Precondition: not e8m0 or e4m3.
uint32_t encode_float(ScaleFormat format, float value);

}  // namespace crumb
