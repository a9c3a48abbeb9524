// MatMul, Gemm, Einsum, Det, cumulative sums.
#include <torch/torch.h>

#include "models/torch/execute/ops/families.h"

namespace crumb::torch_ops {

std::span<const OperatorRow> matrix_operators() { return {}; }

}  // namespace crumb::torch_ops
