// Conv, ConvTranspose, DeformConv, Col2Im.
#include <torch/torch.h>

#include "models/torch/execute/ops/families.h"

namespace crumb::torch_ops {

std::span<const OperatorRow> convolution_operators() { return {}; }

}  // namespace crumb::torch_ops
