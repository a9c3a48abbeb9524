// A network in floats, or a part of one, that others learn from.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/utils.h>

#include <utility>
#include <vector>

#include "libtorch/execute/graph_module.h"

namespace crumb::tasks {

class FloatNetwork {
 public:
  explicit FloatNetwork(const graph::Graph& graph) : module_(graph) { module_.freeze(); }

  /// Its first output, without gradients.
  at::Tensor output(const std::vector<at::Tensor>& inputs) const {
    const torch::NoGradGuard no_gradients;
    std::vector<libtorch::TypedTensor> typed;
    for (const at::Tensor& input : inputs) typed.push_back(libtorch::typed(input));
    return module_.run(std::move(typed)).at(0).tensor;
  }

 private:
  libtorch::GraphModule module_;
};

}  // namespace crumb::tasks
