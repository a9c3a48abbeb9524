// Deformable convolution.
#pragma once

#include "libtorch/execute/operator.h"

namespace crumb::torch_ops {

Outputs deform_conv(const Call& call);

}  // namespace crumb::torch_ops
