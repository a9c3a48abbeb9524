// A matrix of codes as onnxruntime's operators MatMulNBits and GatherBlockQuantized (domain com.microsoft)
// take it, as a tensor that is kept as codes.
//
//   element (n, k) = (code(n, k) - zero point(n, k / block)) * scale(n, k / block)
//
//   codes        unsigned, 2, 4 or 8 bits, packed from the lowest bits of a byte on; a row takes `row_bytes`:
//                of MatMulNBits ceil(K / block) whole blocks of block * bits / 8 bytes, the codes behind
//                column K without meaning; of GatherBlockQuantized K * bits / 8
//   scales       [N, ceil(K / block)], float32, float16 or bfloat16
//   zero points  none: 2^(bits - 1). uint8: codes packed likewise, each row of them on whole bytes. Else
//                numbers of the scales' type, one for each scale
//
// The contract is that of onnxruntime 1.31 (contrib_ops/cpu/quantization/matmul_nbits.cc and its helper).
#pragma once

#include <cstdint>
#include <optional>

#include "base/error.h"
#include "graph/tensor.h"
#include "quant/quantized_tensor.h"

namespace crumb::graph {

struct BlockCodes {
  std::int64_t rows = 0, columns = 0;  ///< N and K, at least 1
  int bits = 4;
  std::int64_t block = 0;      ///< columns to a scale, at least 1
  std::int64_t row_bytes = 0;  ///< at least columns * bits / 8, rounded up
  Tensor codes;                ///< uint8, rows * row_bytes bytes
  Tensor scales;
  std::optional<Tensor> zeros;

  std::int64_t blocks() const { return (columns - 1) / block + 1; }  ///< of a row
};

/// Returns the tensor [N, K] with exactly these codes, scales and zero points, its codes less an offset where
/// the format has a sign:
///
///   no zero points, or all 2^(bits - 1)     int2, int4, int8; narrow where no code is 0
///   all (2^bits - 1) / 2, bits 2 and 4      int2h, int4h
///   all 0                                   uint2, uint4, uint8
///   whole numbers from 0 to 2^bits - 1      uint...:zero=int
///   other numbers                           uint...:zero=float
///
/// A block with a negative scale gets the positive one, and codes and zero point that are 2^bits - 1 less the
/// file's: the same values (a zero may lose its sign). Granularity channel where the blocks of each row have
/// one scale and zero point, else group. Scales of groups are stored as float16 where that is exact. Fails,
/// saying what is wrong, where sizes or types do not fit, for scales and zero points that are not finite, and
/// where float32 does not hold 2^bits - 1 less the zero point of a negative scale.
Result<QuantizedTensor> tensor_of_blocks(const BlockCodes& from);

}  // namespace crumb::graph
