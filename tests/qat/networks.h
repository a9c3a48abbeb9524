// What several tests of training use: recipes from a line, small networks, what a frozen graph gives.
#pragma once

#include <torch/nn/modules/container/sequential.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <memory>
#include <string>
#include <utility>

#include "libtorch/capture/capture.h"
#include "libtorch/execute/graph_module.h"
#include "quant/recipe/recipe.h"
#include "tasks/networks.h"

namespace crumb::testing {

inline Recipe recipe_of(const std::string& yaml) { return parse_recipe("version: 1\n" + yaml, "test"); }

/// 8 inputs, 3 classes.
inline std::shared_ptr<torch::nn::SequentialImpl> small_mlp() {
  return tasks::mlp(tasks::Normalise(0, 1), {8, 30, 20, 3}).ptr();
}

/// 64 points with their classes, for small_mlp.
inline std::pair<at::Tensor, at::Tensor> small_points() {
  const at::Tensor x = torch::randn({64, 8});
  return {x, (x.slice(1, 0, 4).sum(1) > 0).to(at::kLong) + (x.slice(1, 4, 8).sum(1) > 0).to(at::kLong)};
}

inline graph::Graph captured(torch::nn::SequentialImpl& net, const at::Tensor& x) {
  return libtorch::capture(
      net, {x}, [&](const libtorch::Tensors& inputs) { return libtorch::Tensors{net.forward(inputs[0])}; });
}

/// The first output.
inline at::Tensor outputs_of(const graph::Graph& graph, const at::Tensor& x) {
  const torch::NoGradGuard no_gradients;
  libtorch::GraphModule module(graph);
  return module.run({libtorch::typed(x)})[0].tensor;
}

}  // namespace crumb::testing
