// Broadcasting of operators with two inputs.
#pragma once

#include "libtorch/execute/operator.h"

namespace crumb::libtorch {

/// Input 1 as NumPy's broadcasting needs it. Before operator set 7 broadcasting had to be asked for: `axis` says
/// which axis of input 0 the first of input 1 goes with.
at::Tensor second_input(const Call& call);

}  // namespace crumb::libtorch
