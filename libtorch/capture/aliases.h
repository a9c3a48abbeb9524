// Tensors changed in place while another recorded value shares their memory: a graph of values would be
// wrong.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <vector>

namespace crumb::libtorch {

/// Throws Error that names the operator where an operator changes a tensor in place and an operator of
/// `wanted` behind it, or an output, uses what that tensor was before, by itself or through a view.
void refuse_shared_changes(const torch::jit::Graph& graph,
                           const std::vector<const torch::jit::Node*>& wanted);

}  // namespace crumb::libtorch
