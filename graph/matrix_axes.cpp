#include "graph/matrix_axes.h"

#include <algorithm>
#include <numeric>

#include "graph/strided_index.h"

namespace crumb::graph {

std::vector<std::int64_t> tensor_axes(std::size_t rank, MatrixAxes axes) {
  std::vector<std::int64_t> order(rank);  // the value's axes in the tensor's order
  std::iota(order.begin(), order.end(), 0);
  const auto output = order.begin() + static_cast<std::ptrdiff_t>(axes.output);
  std::rotate(order.begin() + static_cast<std::ptrdiff_t>(axes.stack), output, output + 1);
  return inverse(order);
}

std::vector<std::uint64_t> tensor_shape(const std::vector<std::int64_t>& shape, MatrixAxes axes) {
  std::vector<std::int64_t> sizes = shape;
  if (axes.output < shape.size()) sizes = permuted_shape(shape, inverse(tensor_axes(shape.size(), axes)));
  return {sizes.begin(), sizes.end()};
}

std::optional<std::size_t> output_axis_of(const std::vector<std::int64_t>& axes, std::size_t stack_axes) {
  for (std::size_t axis = stack_axes; axis < axes.size(); ++axis)
    if (axes == tensor_axes(axes.size(), {axis, stack_axes})) return axis;
  return std::nullopt;
}

}  // namespace crumb::graph
