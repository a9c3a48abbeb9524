// Deformable convolution.
#pragma once

#include "models/torch/execute/operator.h"

namespace crumb::torch_ops {

Outputs deform_conv(const Call& call);

}  // namespace crumb::torch_ops
