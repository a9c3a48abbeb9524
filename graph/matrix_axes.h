// Which axes of a constant are outputs and which number the matrices of a stack, for its quantizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace crumb::graph {

/// Results differ along axis `output`; granularity channel has one scale for each index of it. The first
/// `stack` axes number matrices that are each quantized alone, as experts are; 0: the constant is one matrix.
struct MatrixAxes {
  std::size_t output = 0, stack = 0;

  MatrixAxes(std::size_t output_axis = 0, std::size_t stack_axes = 0)  // NOLINT: implicit, most have no stack
      : output(output_axis), stack(stack_axes) {}
  bool operator==(const MatrixAxes&) const = default;
};

/// Returns the order in which a quantized tensor stores the axes of a value, as in QuantizedConstant::axes:
/// the stack's axes, the output axis, the others. MatMul's [K, N] with output axis 1 gives {1, 0}, a stack
/// [E, K, N] {0, 2, 1}.
std::vector<std::int64_t> tensor_axes(std::size_t rank, MatrixAxes axes);

/// Returns the shape of the quantized tensor of a value of this shape. A shape without the output axis is
/// returned as it is.
std::vector<std::uint64_t> tensor_shape(const std::vector<std::int64_t>& shape, MatrixAxes axes);

/// Returns the output axis of a value whose tensor has this order of axes; nothing for orders that
/// tensor_axes() does not give.
std::optional<std::size_t> output_axis_of(const std::vector<std::int64_t>& axes, std::size_t stack_axes = 0);

}  // namespace crumb::graph
