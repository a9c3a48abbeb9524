// Resize, Upsample, GridSample, AffineGrid, RoiAlign.
#include <torch/torch.h>

#include "models/torch/execute/ops/families.h"

namespace crumb::torch_ops {

std::span<const OperatorRow> resize_operators() { return {}; }

}  // namespace crumb::torch_ops
