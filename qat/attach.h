// Hooks quantizers into an ordinary LibTorch module: its classes, its forward(), the user's optimizer and
// loop stay.
//
//   auto qat = qat::attach(*model, Recipe::load("w4a4_acc12.yaml"));
//   torch::optim::AdamW optimizer(qat.parameter_groups({.learning_rate = 1e-3, .weight_decay = 1e-4}));
//   for (auto& batch : *loader) {
//     qat.advance(share_of_training_done);        // where the recipe has `prune` or `learned_bits`
//     auto step = qat.step();                     // inside this scope forward() reads quantized weights
//     auto loss = criterion(model->forward(batch.data), batch.target) + qat.penalty();
//     optimizer.zero_grad();
//     loss.backward();
//     optimizer.step();
//   }
//   graph::Graph graph = qat.freeze({example});   // codes, scales, certificates
//
// Weights are those of qat/weights/weight_slots.h. A recipe's rules match them by the names of parameters and
// modules, and by operator (Linear, Conv, ConvTranspose, Embedding; recurrent layers and attention count as
// Linear). The user says in forward() where activations are quantized, with modules of type
// qat::QuantActivation. The recipe's `activations` say how a constrained layer's input is quantized; freeze()
// checks that against the network and refuses where it is not so. To quantize all edges of a network without
// changing its classes, capture it: qat::Network.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "libtorch/capture/capture.h"
#include "qat/network.h"
#include "qat/weights/learned_widths.h"
#include "quant/recipe/recipe.h"

namespace crumb::qat {

/// While it lives, forward() reads quantized weights; after that, the parameters. Steps do not nest.
class Step {
 public:
  ~Step();
  Step(Step&& other) noexcept = default;
  Step& operator=(Step&&) = delete;

 private:
  friend class Hooks;
  explicit Step(std::vector<std::function<void()>> undo) : undo_(std::move(undo)) {}
  std::vector<std::function<void()>> undo_;
};

class Hooks {
 public:
  /// Throws as plan_quantizers() does for the recipe's rules, and Error for layers that the recipe constrains
  /// but that cannot be constrained. `module` must outlive the hooks.
  Hooks(torch::nn::Module& module, const Recipe& recipe, const NetworkOptions& options = {});
  Hooks(Hooks&&) noexcept;
  ~Hooks();

  /// Quantizes the weights as they are now. Call it again after every change of the weights: gradient
  /// accumulation takes one step for each backward pass.
  [[nodiscard]] Step step();

  /// Sets the quantizers' parameters from the weights as they are now, as attach() does: after loading a
  /// float checkpoint.
  void start();

  /// As Network::advance(): before every step.
  void advance(double progress);
  void prune(double progress);
  std::vector<PrunedLayer> pruned() const;
  std::optional<LearnedWidths> learned_widths() const;

  at::Tensor penalty() const;
  std::vector<torch::optim::OptimizerParamGroup> parameter_groups(const Rates& rates) const;
  std::vector<at::Tensor> parameters() const;  ///< those of the module and of the quantizers

  /// Returns the quantizers' own parameters, to save and load with the module: torch::save(qat.quantizers(),
  /// path).
  const std::shared_ptr<torch::nn::Module>& quantizers() const;

  std::vector<LayerAccumulator> accumulators() const;

  /// Returns the module as a graph (models::capture) with the same codes as the last step. Throws Error where
  /// a certificate does not hold: where the input of a constrained layer is not quantized as the recipe says.
  graph::Graph freeze(const libtorch::Tensors& example, const libtorch::Forward& forward,
                      const libtorch::CaptureOptions& options = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

inline Hooks attach(torch::nn::Module& module, const Recipe& recipe, const NetworkOptions& options = {}) {
  return {module, recipe, options};
}

/// Freezes a module, which is captured by its forward().
template <class Module>
graph::Graph freeze(Hooks& hooks, Module& module, const libtorch::Tensors& example,
                    const libtorch::CaptureOptions& options = {}) {
  return hooks.freeze(
      example, [&](const libtorch::Tensors& x) { return libtorch::detail::call_forward(module, x); },
      options);
}

}  // namespace crumb::qat
