// QONNX's quantizers and integer operators.
#include <torch/torch.h>

#include "models/torch/execute/ops/families.h"

namespace crumb::torch_ops {

std::span<const OperatorRow> qonnx_operators() { return {}; }

}  // namespace crumb::torch_ops
