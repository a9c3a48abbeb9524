// Activations, Relu to Softmax.
#include <torch/torch.h>

#include "models/torch/execute/ops/families.h"

namespace crumb::torch_ops {
namespace {

Outputs relu(const Call& call) { return like_input(call, at::relu(call.tensor(0))); }

constexpr OperatorRow kRows[] = {
    {"Relu", relu},
};

}  // namespace

std::span<const OperatorRow> activation_operators() { return kRows; }

}  // namespace crumb::torch_ops
