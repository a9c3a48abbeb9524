// Splits ggml's blocks into codes and scales, and joins them again. The two are inverse to one another, bit
// for bit, so codes go from one file to another unchanged; nothing is rounded. The layouts are described next
// to the decoders in blocks_*.cpp.
//
//   type   codes                                value of code c under the scale d
//   Q1_0   128 of 1 bit, one f16                1 -> d, 0 -> -d
//   Q2_0   64 of 2, one f16                     d * (c - 1)
//   TQ2_0  256 of 2, one f16                    d * (c - 1)
//   Q4_0   32 of 4, one f16                     d * (c - 8)
//   Q4_1   32 of 4, f16 d and minimum m         d * c + m, the product rounded
//   Q5_0   32 of 5, one f16                     d * (c - 16)
//   Q5_1   32 of 5, f16 d and minimum m         d * c + m, the product rounded
//   Q8_0   32 of 8, one f16                     d * c, c in two's complement
//   MXFP4  32 of 4, one e8m0                    d * the OCP e2m1 value of c, d = 2^(byte - 127)
//   NVFP4  64 of 4, an e4m3 for each 16         d * the e2m1 value of c, d = the e4m3 value of the byte
// (MXFP4 and NVFP4 are written there with halved scales and doubled values, which is the same.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace crumb {

struct GgmlCodes {
  enum class Kind : std::uint8_t {
    kLevels,   ///< scale * level, level = code * step - zero
    kMinimum,  ///< scale * code + minimum
    kE2M1      ///< scale * e2m1 value
  };

  std::uint32_t type;    ///< its number (ggml_type.h)
  unsigned elements;     ///< of a block
  unsigned bits;         ///< of a code
  unsigned group;        ///< neighbours that share a scale
  unsigned scale_bytes;  ///< 2: f16; 1: e8m0 or e4m3
  Kind kind;
  int step = 1, zero = 0;  ///< of kLevels
  bool is_signed = false;  ///< codes are in two's complement

  /// Splits a block into codes[elements] and the bit patterns of the scales, then of the minimum.
  void (*split)(const std::byte* block, std::uint8_t* codes, std::uint16_t* scales) = nullptr;
  void (*join)(const std::uint8_t* codes, const std::uint16_t* scales, std::byte* block) = nullptr;

  unsigned scales() const { return elements / group; }
  bool has_minimum() const { return kind == Kind::kMinimum; }
};

/// The most elements, scales and bytes of a block.
inline constexpr unsigned kMostBlockCodes = 256;
inline constexpr unsigned kMostBlockScales = 4;
inline constexpr unsigned kMostBlockBytes = 256;

/// Every type that is codes with scales, by bits per element, the fewest first.
std::span<const GgmlCodes> ggml_code_types();

/// Null for other types.
const GgmlCodes* find_ggml_codes(std::uint32_t type);

}  // namespace crumb
