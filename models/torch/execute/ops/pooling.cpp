// AveragePool, MaxPool, LpPool and the global ones.
#include <torch/torch.h>

#include "models/torch/execute/ops/families.h"

namespace crumb::torch_ops {

std::span<const OperatorRow> pooling_operators() { return {}; }

}  // namespace crumb::torch_ops
