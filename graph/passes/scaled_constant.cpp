#include "graph/passes/scaled_constant.h"

namespace crumb::graph {

std::size_t stride_along(std::span<const std::int64_t> shape, std::size_t axis) {
  std::size_t stride = 1;
  for (const std::int64_t size : shape.subspan(axis + 1)) stride *= static_cast<std::size_t>(size);
  return stride;
}

Tensor scaled_along(const Tensor& tensor, std::size_t axis, const std::vector<double>& factors) {
  std::vector<float> values = tensor.to_floats();
  const std::size_t stride = stride_along(tensor.shape(), axis);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(values[i] * factors[i / stride % factors.size()]);
  return Tensor::floats(tensor.shape(), values);
}

}  // namespace crumb::graph
