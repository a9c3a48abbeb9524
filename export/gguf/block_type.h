// Which type of a GGUF file holds an encoded tensor, code by code: every value is d times a whole number
// there, so that a grid whose values are multiples of 2^-k goes into whole numbers under the scale s / 2^k,
// and a group of n times 32 weights into n blocks of one scale.
//
//   e2m1, scale=e8m0, groups of 32 n                 MXFP4
//   e2m1, scale=e4m3, groups of 16 n (nvfp4)         NVFP4, its tensor scale in a tensor of its own
//   zero=min, uint4 and less, or uint5               Q4_1, Q5_1
//   levels -1 and 1, groups of 128 n                 Q1_0
//   levels -1 to 1, groups of 256 n                  TQ2_0
//   levels -1 to 2, groups of 64 n                   Q2_0
//   levels in [-8, 7], [-16, 15], [-128, 127]        Q4_0, Q5_0, Q8_0
// A level is what multiplies the scale: (value of the code - zero point) * 2^k. Where only the negative
// levels fit (-2 to 1 of int2:range=full, in Q2_0), they are stored under the negative scale: the same
// values. Of several types the smallest is taken. Scales must be float16 numbers (MXFP4 and NVFP4 aside).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "formats/gguf/code_blocks.h"
#include "formats/gguf/ggml_type.h"
#include "quant/quantized_tensor.h"

namespace crumb::exporting {

struct BlockType {
  const GgmlType* type = nullptr;
  const GgmlCodes* codes = nullptr;
  int doublings = 0;      ///< k above
  bool mirrored = false;  ///< levels and scales are stored with the other sign
};

/// A Failure, which ends a sentence about the tensor, says what of the encoding no type holds, and the
/// nearest spec that one does: "no GGUF type holds nf4; the nearest that one does is int4:group=32".
Result<BlockType> find_block_type(const QuantizedView& tensor);

/// Rows of an encoded tensor as blocks.
class BlockRows {
 public:
  /// `name` for messages. The view's bytes must outlive this. Precondition: find_block_type() gave `type` for
  /// it.
  BlockRows(const QuantizedView& tensor, const BlockType& type, std::string name);

  std::uint64_t row_bytes() const;

  /// Throws Error that names tensor, block and scale where the type cannot hold a scale, or a minimum.
  void encode(std::uint64_t row, std::span<std::byte> out) const;

 private:
  std::uint16_t scale_bits(std::uint64_t block) const;
  std::uint16_t minimum_bits(std::uint64_t block) const;
  [[noreturn]] void fail(std::uint64_t block, const std::string& what, float number) const;
  void place(std::uint64_t block, std::span<const std::uint8_t> patterns, std::uint8_t* codes) const;

  std::array<std::uint8_t, 256> codes_under(float zero) const;

  QuantizedView view_;
  RowDecoder decoder_;
  BlockType type_;
  std::string name_;
  std::array<std::uint8_t, 256> codes_;  ///< of patterns without a zero point
};

}  // namespace crumb::exporting
