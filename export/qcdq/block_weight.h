// A constant that is kept as codes as onnxruntime's MatMulNBits (domain com.microsoft) takes it: its layout
// is in graph/onnx/block_codes.h. Internal to export/qcdq.
//
// Codes are those of the constant plus an offset, so that they count from 0, in 2, 4 or 8 bits, whichever is
// the smallest; the zero point takes the same offset. What onnxruntime 1.31 runs on a CPU decides: blocks of
// 16, 32, 64, 128 and 256 weights, zero points that are floats with 2 and 4 bits only.
//
//   whole levels           no zero points where they fit in [-2^(b-1), 2^(b-1) - 1], which is the operator's
//                          default; else zero points in uint8
//   half levels (int2h)    zero points in floats, (2^b - 1) / 2: 1.5 with two bits. Above four bits, and for
//                          minifloats, levels are doubled until they are whole, and scales halved as often
//   zero=int, zero=float   uint8 where all are whole numbers of the width, else floats
//   zero=min               the zero point -minimum / scale, where it gives every value again
//   scales                 float32, repeated for each block: a block lies within one of the constant's groups
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "graph/quantized_constant.h"
#include "graph/tensor.h"

namespace crumb::exporting {

struct BlockWeight {
  int bits = 4;
  std::int64_t block = 0;    ///< columns to a scale
  int doublings = 0;         ///< level = value of the code * 2^doublings
  float offset = 0;          ///< code in the file = level + offset
  bool float_zeros = false;  ///< zero points in floats
  bool usual_zeros = false;  ///< all are 2^(bits - 1), and left out
};

/// Finds the form that gives exactly the constant's values. A Failure, which ends a sentence about the
/// constant, says what of it has none, and the nearest spec that has one: "has groups of 8; the nearest that
/// MatMulNBits holds is int4:group=16".
Result<BlockWeight> find_block_weight(const graph::QuantizedConstant& constant);

/// The inputs of the node. Precondition: find_block_weight() gave `weight` for the constant.
struct BlockTensors {
  graph::Tensor codes;  ///< uint8 [N, blocks, block * bits / 8]; packed when it is read
  graph::Tensor scales;
  std::optional<graph::Tensor> zeros;
};
BlockTensors tensors_of(const graph::QuantizedConstant& constant, const BlockWeight& weight);

}  // namespace crumb::exporting
