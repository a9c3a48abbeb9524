// How wide an accumulator must be for a dot product of whole numbers never to overflow.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "models/graph/datatypes.h"
#include "models/graph/qonnx/infer_datatypes.h"

namespace crumb::graph {

/// One layer's bounds on the width of a signed accumulator, from the least to the most that is known.
struct AccumulatorBounds {
  int by_types = 0;               ///< by length, width of the inputs and width of the weights
  std::optional<int> by_weights;  ///< by the largest l1 norm of an output's weights
  std::optional<DataType>
      exact;  ///< by the weights' signs and the inputs' range: the least type of the result
};

/// Bits for `length` products of N-bit inputs and M-bit signed weights (A2Q's data-type bound, arXiv:2308.13504).
int accumulator_bits_by_types(double length, int input_bits, bool signed_input, int weight_bits);

/// Bits for weights whose absolute values sum up to `norm` (A2Q's weight bound).
int accumulator_bits_by_norm(double norm, int input_bits, bool signed_input);

/// The weights of one layer as whole numbers: `outputs` rows of as many terms each.
struct WeightRows {
  std::vector<double> norm;      ///< sum of absolute values
  std::vector<double> positive;  ///< sum of what is above zero
  std::vector<double> negative;  ///< sum of what is below
};

/// Which output and which term each element of a weight belongs to: `shape` with the axes that are summed over
/// marked. Values must be whole numbers.
WeightRows weight_rows(std::span<const double> values, std::span<const std::int64_t> shape,
                       const std::vector<bool>& summed);

/// The range of the result, and the least type for it (FINN's rule).
DataType accumulator_type(const WeightRows& rows, double input_low, double input_high);

}  // namespace crumb::graph
