// Broadcasting for operators with two inputs.
#pragma once

#include "libtorch/execute/operator.h"

namespace crumb::libtorch {

/// Input 1 in a shape for NumPy's broadcasting. Before operator set 7 operators broadcast only on request,
/// and `axis` says which axis of input 0 is the first one of input 1.
at::Tensor second_input(const Call& call);

}  // namespace crumb::libtorch
