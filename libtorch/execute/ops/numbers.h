// Arithmetic between tensors of different floating types by NumPy's rules: the type of a result depends on
// the types alone, and a number of rank 0 counts like any other tensor.
#pragma once

#include <ATen/ATen.h>

#include "libtorch/execute/typed_tensor.h"

namespace crumb::libtorch {

/// A value as a floating tensor: integers of 32 bits and more as doubles, narrower ones in a type that any
/// floating type takes in.
inline at::Tensor as_number(const TypedTensor& value) {
  if (value.tensor.is_floating_point()) return value.tensor;
  const unsigned bits = graph::info(value.type).bits;
  return value.tensor.to(bits <= 8 ? at::kHalf : bits <= 16 ? at::kFloat : at::kDouble);
}

/// The operands in their common type, on a's device.
inline std::pair<at::Tensor, at::Tensor> common(const at::Tensor& a, const at::Tensor& b) {
  const at::ScalarType type = c10::promoteTypes(a.scalar_type(), b.scalar_type());
  return {a.to(type), b.to(a.device(), type)};
}

inline at::Tensor quotient_of(const at::Tensor& a, const at::Tensor& b) {
  const auto [x, y] = common(a, b);
  return x / y;
}
inline at::Tensor sum_of(const at::Tensor& a, const at::Tensor& b) {
  const auto [x, y] = common(a, b);
  return x + y;
}
inline at::Tensor difference_of(const at::Tensor& a, const at::Tensor& b) {
  const auto [x, y] = common(a, b);
  return x - y;
}
inline at::Tensor product_of(const at::Tensor& a, const at::Tensor& b) {
  const auto [x, y] = common(a, b);
  return x * y;
}

}  // namespace crumb::libtorch
