// Deformable convolution.
#pragma once

#include "libtorch/execute/operator.h"

namespace crumb::libtorch {

Outputs deform_conv(const Call& call);

}  // namespace crumb::libtorch
