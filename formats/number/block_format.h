// Block formats: an element format, a block length along the row, and how a block's scale is stored. They
// follow the OCP Microscaling specification 1.0 (MX) and NVIDIA's NVFP4.
//
//   MX       scale byte = floor(log2 max|x|) - emax + 127 (e8m0), emax the exponent of the element's largest
//            power of two: 2 for e2m1 and e2m3, 4 for e3m2, 8 for e4m3fn, 15 for e5m2, 0 for int8
//   MXINT8   the element is a fixed-point number with six fraction bits, code * 2^-6, so that the scale that
//            multiplies the code is 2^(byte - 127 - 6). Codes are -127..127 (OCP lets -128 go unused)
//   NVFP4    tensor scale g = max|x| of the tensor / 2688; block scale = e4m3fn(max|x| of 16 / 6 / g);
//            the scale that multiplies the element is float32(block scale) * g
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "formats/number/scale_format.h"

namespace crumb {

struct BlockFormat {
  std::string_view name;
  std::string_view element;  ///< a row of number_formats()
  uint64_t block;            ///< elements that share a scale, along the row
  ScaleFormat scale;
  int emax = 0;               ///< MX: exponent of the element's largest power of two
  int scale_exponent = 0;     ///< the stored scale is multiplied by 2^scale_exponent
  bool tensor_scale = false;  ///< NVFP4: the stored scale is multiplied by one float32 per tensor
};

inline constexpr BlockFormat kBlockFormats[] = {
    {"mxfp4", "e2m1", 32, ScaleFormat::kE8M0, 2},
    {"mxfp6_e2m3", "e2m3", 32, ScaleFormat::kE8M0, 2},
    {"mxfp6_e3m2", "e3m2", 32, ScaleFormat::kE8M0, 4},
    {"mxfp8_e4m3", "e4m3fn", 32, ScaleFormat::kE8M0, 8},
    {"mxfp8_e5m2", "e5m2", 32, ScaleFormat::kE8M0, 15},
    {"mxint8", "int8", 32, ScaleFormat::kE8M0, 0, -6},
    {"nvfp4", "e2m1", 16, ScaleFormat::kE4M3, 0, 0, true},
};

/// The block format of that name, or nullptr.
inline const BlockFormat* find_block_format(std::string_view name) {
  for (const BlockFormat& format : kBlockFormats) {
    if (format.name == name) return &format;
  }
  return nullptr;
}

}  // namespace crumb
