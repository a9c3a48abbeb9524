// Windows over the spatial axes of tensors [N, C, D1, ..., Dn]: graph/window.h for ATen's.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/window.h"
#include "libtorch/execute/operator.h"

namespace crumb::libtorch {

using graph::KeptResult;
using graph::Window;

/// The windows of a node over an input. Throws Error where they do not fit it.
Window window_of(const Call& call, const at::Tensor& input, std::vector<std::int64_t> kernel,
                 bool may_round_up = false);

/// What a ConvTranspose keeps of its full result.
KeptResult kept_of(const Call& call, const at::Tensor& input, const std::vector<std::int64_t>& kernel,
                   const std::vector<std::int64_t>& strides, const std::vector<std::int64_t>& dilations);

/// An attribute with one positive (or not negative) integer for each of `count`, or `otherwise` for each.
std::vector<std::int64_t> sizes_attribute(const Call& call, const char* name, std::size_t count,
                                          std::int64_t otherwise);

/// Spatial axes of an input of rank 3 and more; throws Error below.
std::size_t spatial_axes(const Call& call, const at::Tensor& input);

/// The input with `begin` and `end` elements of `value` around each spatial axis; negative ones cut off.
at::Tensor padded(const at::Tensor& input, const std::vector<std::int64_t>& begin,
                  const std::vector<std::int64_t>& end, const at::Scalar& value);

}  // namespace crumb::libtorch
