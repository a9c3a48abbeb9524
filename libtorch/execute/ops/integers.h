// Integer arithmetic for carriers where ATen's own operators would be wrong: uint64 is stored in int64 by its
// bits, and dividing the least signed number by -1 must wrap around instead of trapping.
#pragma once

#include "libtorch/execute/typed_tensor.h"

namespace crumb::libtorch {

/// Numbers of the carrier whose signed order is the order of the values. The function is its own inverse.
/// Floats, and types whose carriers have the right order, are returned as they are.
at::Tensor ordered(const at::Tensor& values, graph::ElementType type);

/// a / b towards zero and the remainder that goes with it, with broadcasting, as carriers before wrapped().
/// Throws c10::Error where a divisor is 0.
at::Tensor divide_integers(const at::Tensor& a, const at::Tensor& b, graph::ElementType type);
at::Tensor remainder_of_integers(const at::Tensor& a, const at::Tensor& b, graph::ElementType type);

/// Values of an integer type, or bool, as floating point numbers, rounded once.
at::Tensor integers_to_float(const at::Tensor& values, graph::ElementType type, at::ScalarType to);

/// Values of any type that numbers can be computed with in floating point: floats as they are, the rest as
/// double.
at::Tensor to_real(const TypedTensor& value);

/// Floating results back in a type: floats are rounded to it, integers are truncated towards zero. What an
/// integer type cannot hold becomes the lowest bits of its 64-bit integer, for int32 what the machine's
/// conversion gives.
TypedTensor from_real(const at::Tensor& values, graph::ElementType type);

/// The least and the greatest value of a type as a tensor without axes of its carrier; infinities for floats.
at::Tensor least_of(graph::ElementType type, at::Device device);
at::Tensor greatest_of(graph::ElementType type, at::Device device);

}  // namespace crumb::libtorch
