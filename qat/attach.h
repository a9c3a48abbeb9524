// Quantizers hooked into an ordinary LibTorch module: its classes, its forward(), the user's optimizer and loop stay.
//
//   auto qat = qat::attach(*model, Recipe::load("w4a4_acc12.yaml"));
//   torch::optim::AdamW optimizer(qat.parameter_groups({.learning_rate = 1e-3, .weight_decay = 1e-4}));
//   for (auto& batch : *loader) {
//     qat.advance(share_of_training_done);        // where the recipe says `prune` or `learned_bits`
//     auto step = qat.step();                     // inside this scope weights read as quantized
//     auto loss = criterion(model->forward(batch.data), batch.target) + qat.penalty();
//     optimizer.zero_grad();
//     loss.backward();
//     optimizer.step();
//   }
//   graph::Graph graph = qat.freeze({example});   // codes, scales, certificates
//
// Weights are those of qat/weights/weight_slots.h; a recipe's rules match them by the names of parameters and modules, and by
// operator (Linear, Conv, ConvTranspose, Embedding; recurrent layers and attention count as Linear). Activations need a
// place: modules of the user's own, qat::QuantActivation, stand in forward(). `activations` of the recipe says what a
// constrained layer's input is quantized to; freeze() recomputes it from the network and refuses where it is not so.
// For networks whose edges shall all be quantized without changing their classes, capture them: qat::Network.
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

/// While it lives, weights read as quantized; then as they are. Steps do not nest.
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
  /// Throws as plan_quantizers() does for the recipe's rules, and Error for layers that it constrains but cannot.
  /// `module` must outlive the hooks.
  Hooks(torch::nn::Module& module, const Recipe& recipe, const NetworkOptions& options = {});
  Hooks(Hooks&&) noexcept;
  ~Hooks();

  /// Quantizes the weights of now. Again after every change of them: gradient accumulation takes one step for each
  /// backward pass.
  [[nodiscard]] Step step();

  /// Starts the quantizers' parameters from the weights of now, as attach() does: after loading a float checkpoint.
  void start();

  /// As Network's: before every step.
  void advance(double progress);
  void prune(double progress);
  std::vector<PrunedLayer> pruned() const;
  std::optional<LearnedWidths> learned_widths() const;

  at::Tensor penalty() const;
  std::vector<torch::optim::OptimizerParamGroup> parameter_groups(const Rates& rates) const;
  std::vector<at::Tensor> parameters() const;  ///< the module's and the quantizers'

  /// The quantizers' own parameters, to save and load beside the module: torch::save(qat.quantizers(), path).
  const std::shared_ptr<torch::nn::Module>& quantizers() const;

  std::vector<LayerAccumulator> accumulators() const;

  /// The module as a graph (models::capture) with the same codes as the last step. Throws Error where a certificate
  /// does not hold: the input of a constrained layer is not quantized as the recipe says.
  graph::Graph freeze(const libtorch::Tensors& example, const libtorch::Forward& forward,
                      const libtorch::CaptureOptions& options = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

inline Hooks attach(torch::nn::Module& module, const Recipe& recipe, const NetworkOptions& options = {}) {
  return {module, recipe, options};
}

/// A module by its forward().
template <class Module>
graph::Graph freeze(Hooks& hooks, Module& module, const libtorch::Tensors& example,
                    const libtorch::CaptureOptions& options = {}) {
  return hooks.freeze(
      example, [&](const libtorch::Tensors& x) { return libtorch::detail::call_forward(module, x); },
      options);
}

}  // namespace crumb::qat
