// Gather*, Scatter*, OneHot, NonZero, Unique.
#include <torch/torch.h>

#include "models/torch/execute/ops/families.h"

namespace crumb::torch_ops {

std::span<const OperatorRow> index_operators() { return {}; }

}  // namespace crumb::torch_ops
