// DFT, STFT, windows, MelWeightMatrix.
#include <torch/torch.h>

#include "models/torch/execute/ops/families.h"

namespace crumb::torch_ops {

std::span<const OperatorRow> signal_operators() { return {}; }

}  // namespace crumb::torch_ops
