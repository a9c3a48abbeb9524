// Products of codes and weights that both fit bytes; integer_convolution.cpp and integers.cpp have those that
// do not.
#pragma once

#include "runtime/operator.h"

namespace crumb::runtime {

/// Of nodes whose weights are int8 (lower/domain.h). Throw Error where the node does not say what they need.
Kernel byte_convolution(const NodeFacts& facts);
Kernel byte_mat_mul(const NodeFacts& facts);
/// Of nodes whose operands are both computed.
Kernel code_products(const NodeFacts& facts);

}  // namespace crumb::runtime
