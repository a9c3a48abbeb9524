// A layer alone, with the inputs that drive its accumulator as far as it goes.
#pragma once

#include <optional>

#include "models/graph/accumulator/layers.h"

namespace crumb::graph {

struct Witness {
  /// One MatMul, Conv or ConvTranspose in QONNX: input "x" behind a Quant of scale 1, the layer's codes behind another,
  /// result "y" the sums themselves. A bias inside the register is added where it takes the sum further.
  Graph graph;
  /// float32, whole numbers, two samples: the one whose sum is greatest, and the one whose sum is least. Terms that the
  /// worst register does not add are 0, or as near to it as inputs come.
  Tensor input;
  std::size_t channel_of_max = 0, channel_of_min = 0;
  WorstSums reached;  ///< the greatest and the least number of "y"; the worst sums, wherever inputs can be 0
};

/// Of the layer's worst register. Nothing where it has no codes, no input range, sums of more than 64 bits or more than
/// 2^26 inputs. Numbers
/// past 2^24 are not exact in float32, so neither is "y" there.
std::optional<Witness> witness_of(const ProductLayer& layer, std::size_t tile, bool with_bias);

}  // namespace crumb::graph
