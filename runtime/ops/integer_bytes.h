// Products of codes and weights that both fit bytes; integer_convolution.cpp and integers.cpp have those that
// do not.
#pragma once

#include "runtime/operator.h"

namespace crumb::runtime {

/// Kernels of nodes whose weights are int8 (lower/domain.h). They throw Error where an attribute or input is
/// missing.
Kernel byte_convolution(const NodeFacts& facts);
Kernel byte_mat_mul(const NodeFacts& facts);
/// The kernel of nodes whose operands are both computed.
Kernel code_products(const NodeFacts& facts);

}  // namespace crumb::runtime
