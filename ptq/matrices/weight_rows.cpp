#include "ptq/matrices/weight_rows.h"

#include <algorithm>

#include "graph/strided_index.h"

namespace crumb::ptq {

WeightRows weight_rows(const graph::Tensor& tensor, graph::MatrixAxes axes) {
  WeightRows rows{.axes = graph::tensor_axes(tensor.shape().size(), axes),
                  .shape = graph::tensor_shape(tensor.shape(), axes),
                  .values = tensor.to_floats(),
                  .stack_axes = axes.stack};
  if (!std::ranges::is_sorted(rows.axes))
    rows.values = graph::permuted(rows.values, tensor.shape(), graph::inverse(rows.axes));
  return rows;
}

}  // namespace crumb::ptq
