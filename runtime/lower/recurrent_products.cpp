#include "runtime/lower/recurrent_products.h"

#include <memory>
#include <utility>

#include "graph/matrix_axes.h"

namespace crumb::runtime {

using graph::Node;

Node product_in_front(const Node& node, std::size_t direction, const std::string& output) {
  return {.name = node.name + (direction == 0 ? ".inputs" : ".inputs_back"),
          .op = "MatMul",
          .domain = {},
          .version = 13,
          .inputs = {},
          .outputs = {output},
          .attributes = {},
          .metadata = node.metadata};
}

IntegerWeight of_direction(const IntegerWeight& all, std::size_t direction, std::size_t directions,
                           std::size_t terms) {
  IntegerWeight own{
      .shape = {all.shape[0], static_cast<std::int64_t>(terms)}, .integers = {}, .scales = all.scales};
  for (std::size_t row = 0; row < all.outputs(); ++row) {
    const auto first =
        all.integers.begin() + static_cast<std::ptrdiff_t>((row * directions + direction) * terms);
    own.integers.insert(own.integers.end(), first, first + static_cast<std::ptrdiff_t>(terms));
  }
  return own;
}

std::optional<graph::QuantizedConstant> as_matrix(const graph::QuantizedConstant& constant,
                                                  std::vector<std::int64_t> axes) {
  const std::vector<std::int64_t> shape = constant.shape();
  if (shape.size() != 3 || shape[0] != 1 || constant.tensor->encoding.stack_axes != 0 ||
      constant.axes != graph::tensor_axes(3, 1))
    return std::nullopt;
  QuantizedTensor matrix = *constant.tensor;
  matrix.shape = {static_cast<std::uint64_t>(shape[1]), static_cast<std::uint64_t>(shape[2])};
  return graph::QuantizedConstant{.tensor = std::make_shared<const QuantizedTensor>(std::move(matrix)),
                                  .axes = std::move(axes)};
}

}  // namespace crumb::runtime
