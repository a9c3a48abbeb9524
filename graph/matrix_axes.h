// Which axes of a constant are what to its quantizer: outputs, and matrices of a stack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace crumb::graph {

/// Results differ along axis `output`, which scales of granularity channel follow. The first `stack` axes number matrices
/// that are quantized each by itself, as experts are; 0: the constant is one matrix.
struct MatrixAxes {
  std::size_t output = 0, stack = 0;

  MatrixAxes(std::size_t output_axis = 0, std::size_t stack_axes = 0)  // NOLINT: implicit, most have no stack
      : output(output_axis), stack(stack_axes) {}
  bool operator==(const MatrixAxes&) const = default;
};

/// The order in which a quantized tensor has the axes of a value, as QuantizedConstant::axes says it: axes of the stack, the
/// output axis, the others. MatMul's [K, N] with output axis 1 gives {1, 0}, a stack [E, K, N] {0, 2, 1}.
std::vector<std::int64_t> tensor_axes(std::size_t rank, MatrixAxes axes);

/// The shape of a tensor whose value has this one. A shape without the output axis stays.
std::vector<std::uint64_t> tensor_shape(const std::vector<std::int64_t>& shape, MatrixAxes axes);

/// The output axis of a value whose axes a tensor has in such an order; nothing of other orders.
std::optional<std::size_t> output_axis_of(const std::vector<std::int64_t>& axes, std::size_t stack_axes = 0);

}  // namespace crumb::graph
