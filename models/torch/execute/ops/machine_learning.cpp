// The ai.onnx.ml operators that are tensors in and out.
#include <torch/torch.h>

#include "models/torch/execute/ops/families.h"

namespace crumb::torch_ops {

std::span<const OperatorRow> machine_learning_operators() { return {}; }

}  // namespace crumb::torch_ops
