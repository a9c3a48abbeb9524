// A constant with its rows first, in the order of its codes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/matrix_axes.h"
#include "graph/tensor.h"

namespace crumb::ptq {

struct WeightRows {
  std::vector<std::int64_t> axes;  ///< as in graph::QuantizedConstant
  std::vector<std::uint64_t> shape;
  std::vector<float> values;     ///< row by row
  std::uint64_t stack_axes = 0;  ///< leading axes of the shape that number matrices
  std::vector<float> beside =
      {};  ///< what branches of the layer add to the values (branch_weights.h); empty: nothing
};

WeightRows weight_rows(const graph::Tensor& tensor, graph::MatrixAxes axes);

}  // namespace crumb::ptq
