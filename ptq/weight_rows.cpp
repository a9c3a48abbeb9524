#include "ptq/weight_rows.h"

#include "graph/quantized_constant.h"
#include "graph/strided_index.h"

namespace crumb::ptq {

WeightRows weight_rows(const graph::Tensor& tensor, std::size_t output_axis) {
  WeightRows rows{.axes = graph::axes_with_output(tensor.shape().size(), output_axis),
                  .shape = {},
                  .values = tensor.to_floats()};
  const std::vector<std::int64_t> order = graph::inverse(rows.axes);
  if (output_axis != 0) rows.values = graph::permuted(rows.values, tensor.shape(), order);
  const std::vector<std::int64_t> shape = graph::permuted_shape(tensor.shape(), order);
  rows.shape.assign(shape.begin(), shape.end());
  return rows;
}

}  // namespace crumb::ptq
