// A layer alone, with the inputs that drive its accumulator as far as it goes.
#pragma once

#include <vector>

#include "analysis/accumulator/layers.h"

namespace crumb::analysis {

struct Witness {
  /// One MatMul, Conv or ConvTranspose in QONNX: input "x" behind a Quant of scale 1, the layer's codes
  /// behind another, result "y" the sums themselves. A bias inside the register is added where it takes the
  /// sum that is shown further.
  graph::Graph graph;
  /// float32, whole numbers, two samples: the one whose sum is greatest, and the one whose sum is least.
  /// Terms that the worst register does not add are 0, or as near to it as inputs come.
  graph::Tensor input;
  std::size_t channel_of_max = 0, channel_of_min = 0;
  WorstSums reached;  ///< the greatest and the least number of "y" that the samples are there for
  bool shows_max = true, shows_min = true;  ///< which extreme the model has its bias for
};

/// Of the layer's worst registers: one model that shows both extremes, or, where one channel has both and its
/// bias is a term of one alone, two, the greatest first. The extreme that a model shows is the worst sum,
/// wherever inputs can be 0. None where the layer has no codes, no input range or one whose zero point is
/// computed, sums of more than 64 bits or more than 2^26 inputs. Numbers past 2^24 are not exact in float32,
/// so neither is "y" there.
std::vector<Witness> witnesses_of(const ProductLayer& layer, std::size_t tile);

}  // namespace crumb::analysis
