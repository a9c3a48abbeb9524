// Weights as bitsandbytes stores them, inside formats/checkpoint/quantized.
//
// Four bits: the tensor's elements in order, two a byte, the first in the upper half; B consecutive elements
// share an absmax, across rows, and the last block may be partial.
//   value = narrow(table[code] * absmax[i / B])
// absmax is float32, or bytes of its own ("nested", double quantization):
//   absmax[j] = map[byte[j]] * nested_absmax[j / nested_B] + offset     (float32, rounded after each)
//
// Eight bits: signed bytes [N, K] and a float32 a row, the row's absmax.
//   value = (code * absmax[n]) * (1 / 127)                              (float32, rounded after each)
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "formats/checkpoint/quantized/quantized_matrix.h"

namespace crumb {

enum class FourBits : std::uint8_t { kNf4, kFp4 };

/// The values of the sixteen codes. FP4 is bitsandbytes' own: no exponent of its values is that of e2m1.
std::span<const float, 16> values_of(FourBits kind);

struct FourBitLayout {
  FourBits kind = FourBits::kNf4;
  std::uint64_t rows = 0, cols = 0;
  std::uint64_t block = 64;        ///< at least 1
  std::uint64_t nested_block = 0;  ///< 0: absmax is float32
  float nested_offset = 0;
  DType result = DType::kF32;  ///< F32, F16, BF16
};

struct FourBitParts {
  QuantizedPart codes, absmax;
  QuantizedPart nested_absmax, nested_map;  ///< where absmax is nested
};

/// Whoever makes the layout checks that there are as many bytes as it says.
std::shared_ptr<const ComputedMatrix> make_four_bit_matrix(const FourBitLayout& layout,
                                                           const FourBitParts& parts);
std::shared_ptr<const ComputedMatrix> make_eight_bit_matrix(std::uint64_t cols, const QuantizedPart& codes,
                                                            const QuantizedPart& absmax);

}  // namespace crumb
