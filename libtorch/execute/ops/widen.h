// Half precision is computed with in float32, and rounded once at the end.
#pragma once

#include <ATen/core/Tensor.h>

namespace crumb::libtorch {

/// float16 and bfloat16 as float; everything else, and no tensor, as it is.
inline at::Tensor widened(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  const bool narrow = tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
  return narrow ? tensor.to(at::kFloat) : tensor;
}

}  // namespace crumb::libtorch
