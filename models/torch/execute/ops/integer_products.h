// Matrix products and convolutions of integers, exact, and their quantized forms.
#pragma once

#include <utility>

#include "models/torch/execute/operator.h"

namespace crumb::torch_ops {

/// The least and greatest integer of a type of at most 32 bits.
std::pair<std::int64_t, std::int64_t> integer_bounds(graph::ElementType type);

Outputs matmul_integer(const Call& call);
Outputs conv_integer(const Call& call);
Outputs qlinear_matmul(const Call& call);
Outputs qlinear_conv(const Call& call);

}  // namespace crumb::torch_ops
