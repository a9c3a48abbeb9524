// Matrix products and convolutions of integers, exact, and their quantized forms.
#pragma once

#include <utility>

#include "libtorch/execute/operator.h"

namespace crumb::libtorch {

/// The least and greatest integer of a type of at most 32 bits.
std::pair<std::int64_t, std::int64_t> integer_bounds(graph::ElementType type);

Outputs matmul_integer(const Call& call);
Outputs conv_integer(const Call& call);
Outputs qlinear_matmul(const Call& call);
Outputs qlinear_conv(const Call& call);

/// What these make of their exact sums (int64; a convolution's with its bias).
Outputs quantized_matmul(const Call& call, const at::Tensor& sums);
Outputs quantized_conv(const Call& call, const at::Tensor& sums);

}  // namespace crumb::libtorch
