// Reshape, Transpose, Concat, Split, Slice, Pad, Tile, Expand.
#include <torch/torch.h>

#include "models/torch/execute/ops/families.h"

namespace crumb::torch_ops {

std::span<const OperatorRow> layout_operators() { return {}; }

}  // namespace crumb::torch_ops
