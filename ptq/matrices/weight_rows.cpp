#include "ptq/matrices/weight_rows.h"

#include <algorithm>

#include "graph/strided_index.h"

namespace crumb::ptq {

WeightRows weight_rows(const graph::Tensor& tensor, graph::MatrixAxes axes) {
  WeightRows rows{.axes = graph::tensor_axes(tensor.shape().size(), axes),
                  .shape = graph::tensor_shape(tensor.shape(), axes),
                  .values = {},
                  .stack_axes = axes.stack};
  rows.values = graph::transposed(tensor, graph::inverse(rows.axes)).to_floats();
  return rows;
}

}  // namespace crumb::ptq
