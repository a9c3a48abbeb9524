// Reduce*, ArgMax, TopK.
#include <torch/torch.h>

#include "models/torch/execute/ops/families.h"

namespace crumb::torch_ops {

std::span<const OperatorRow> reduction_operators() { return {}; }

}  // namespace crumb::torch_ops
