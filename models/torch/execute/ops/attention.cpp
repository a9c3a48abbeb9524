// Attention, RotaryEmbedding and their kin.
#include <torch/torch.h>

#include "models/torch/execute/ops/families.h"

namespace crumb::torch_ops {

std::span<const OperatorRow> attention_operators() { return {}; }

}  // namespace crumb::torch_ops
