// LSTM, GRU, RNN.
#include <torch/torch.h>

#include "models/torch/execute/ops/families.h"

namespace crumb::torch_ops {

std::span<const OperatorRow> recurrent_operators() { return {}; }

}  // namespace crumb::torch_ops
