// Refuses tensors that are changed in place while another recorded value shares their memory: a graph of
// values would compute something else.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <vector>

namespace crumb::libtorch {

/// Throws Error, which names the operator, where an operator changes a tensor in place and a later operator
/// of `wanted`, or an output, uses the tensor's old value, directly or through a view.
void refuse_shared_changes(const torch::jit::Graph& graph,
                           const std::vector<const torch::jit::Node*>& wanted);

}  // namespace crumb::libtorch
