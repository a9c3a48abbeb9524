// A network that trains with its quantizers in the loop: a float graph, what a recipe says of it, and the parameters
// that quantizing adds.
//
//   graph::Graph graph = models::capture(*float_network, {example});      // or graph::read_onnx(...)
//   qat::Network network(std::move(graph), recipe);
//   network.calibrate({{x1}, {x2}});                                      // ranges of activations
//   torch::optim::AdamW optimizer(network.parameter_groups({.learning_rate = 1e-3, .weight_decay = 1e-4}));
//   for (...) {
//     network.advance(share_of_training_done);                            // where the recipe prunes or learns widths
//     auto loss = cross_entropy(network.forward(x), y) + network.penalty();
//     optimizer.zero_grad(); loss.backward(); optimizer.step();
//   }
//   graph::Graph quantized = network.freeze();                            // the same codes; no LibTorch from here on
//
// Where quantizers stand is graph/quantize's plan, the one that post-training quantization uses. Weights, norms
// and biases of the float graph are parameters under their own names ("fc1.weight"), so a float checkpoint loads, and
// the other way round; the quantizers' own parameters stand under "quantizers.". In every forward pass weights read as
// quantized, by qat/weights/weight_quantizer.h; activations by qat/activations/activation_quantizer.h.
//
// Recurrent layers become cells of plain operators, one for each step of the example (graph::unroll_recurrent), with
// quantizers on everything inside: on what goes into the products and on what the gates multiply as the recipe says, on
// sums and states with eight bits. The frozen graph has them too, so that QONNX's tools execute it.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "libtorch/execute/typed_tensor.h"
#include "qat/optimize/parameter_groups.h"
#include "qat/weights/learned_widths.h"
#include "qat/weights/pruner.h"
#include "quant/recipe/recipe.h"

namespace crumb::libtorch {
class GraphModule;
}

namespace crumb::qat {

struct NetworkOptions {
  double penalty_weight = 1e-3;  ///< lambda of A2Q's regulariser
  /// Constrains the first and the last layer's accumulators too; they keep 8-bit weights and inputs all the same.
  bool all_layers = false;
};

/// Which quantizers work; the others pass values on.
struct ActiveQuantizers {
  bool weights = true;  ///< and biases, where activations are quantized too
  bool activations = true;
};

/// Quantizers that come in one after another, by the number of the step: network.set_active(schedule.at(step)).
struct QuantizerSchedule {
  std::int64_t weights_from = 0, activations_from = 0;
  ActiveQuantizers at(std::int64_t step) const {
    return {.weights = step >= weights_from, .activations = step >= activations_from};
  }
};

/// What became of one layer's accumulator, from its codes of now.
struct LayerAccumulator {
  std::string name;  ///< of the weight
  int bits = 0;      ///< it is constrained to; 0: it is not
  int bits_needed =
      0;  ///< by the worst sums over all channels and tiles; 0: not known (no quantized input, or not calibrated)
  std::int64_t repaired = 0;  ///< unit steps that exact repair took in the last forward pass
};

class Network : public torch::nn::Module {
 public:
  /// Throws what plan_quantizers() throws, and Error naming layers that a recipe constrains but cannot: without a
  /// quantized input, grids without zero, a bias that leaves no budget.
  Network(graph::Graph graph, const Recipe& recipe, const NetworkOptions& options = {});
  ~Network() override;

  /// Inputs and outputs in the graph's order. In training mode (train()) statistics move; in eval mode nothing changes.
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs);
  at::Tensor forward(const at::Tensor& input);  ///< one input, the first output

  /// What forward() runs, and the constants it runs with now: for those who run parts of it (libtorch/execute/cut_pass.h).
  const libtorch::GraphModule& graph_module() const;
  std::map<std::string, libtorch::TypedTensor> constants_of_now();

  /// The float network: no quantizer, the parameters of now.
  std::vector<at::Tensor> forward_float(const std::vector<at::Tensor>& inputs);

  /// Scales of activations by the recipe's search, from samples that run through the float network; then budgets and,
  /// for constrained layers, the projection of the weights into them (EP-init). Before the first forward pass.
  void calibrate(const std::vector<std::vector<at::Tensor>>& batches);

  /// Before calibrate(): weights, by name, whose values are those of codes that were found before, begin with their scales
  /// instead of the search's; codes of what is no constant of this network are left alone. Throws Error where they are no codes of the
  /// recipe's spec.
  void begin_with(std::map<std::string, graph::QuantizedConstant> codes);

  /// Codes of weights stay from now on as they are, and their scales learn, with all that is not quantized: call it after
  /// calibrate(), and before load() of a network that was kept after it. Throws Error, naming the weights, where some have no scales that learn.
  void fix_codes();

  /// A parameter that holds quantized weights, turned or whole or several side by side, and for each of its elements how far apart
  /// the grid's values lie there (0: it is no such weight's).
  struct Rounded {
    at::Tensor weight, steps;
  };
  /// After calibrate(). Weights that are computed in other ways are left out.
  std::vector<Rounded> rounded_weights() const;

  /// From now on, in forward(). All of them work at first; frozen graphs have all.
  void set_active(ActiveQuantizers active);

  /// Mean and variance of every batch norm that the recipe keeps, from these samples, with the quantizers that work now:
  /// one after another, each behind those before it as they are then. Throws Error where there are no samples.
  void reestimate_batch_norm(const std::vector<std::vector<at::Tensor>>& batches);

  /// What is added to the loss: the regulariser of all constrained layers, lambda included, and the price of learned
  /// widths; 0 where there is none of them.
  at::Tensor penalty() const;

  /// Before every step, after calibrate(), with the share of the training that is done (0 to 1): prunes, and holds
  /// learned widths to their budget, as the recipe says. From the middle on widths are fixed, and within it.
  void advance(double progress);

  /// advance() for pruning alone: as far as is due when this share of the training is done. Weights behind the masks read
  /// as zeros.
  void prune(double progress);

  /// Of the weights that have a goal.
  std::vector<PrunedLayer> pruned() const;

  /// Of all quantized weights, where the recipe has `learned_bits`.
  std::optional<LearnedWidths> learned_widths() const;

  /// Weights (with decay), then norms and biases, scales, and learned widths without.
  std::vector<torch::optim::OptimizerParamGroup> parameter_groups(const Rates& rates) const;

  /// The graph with a QuantizedTensor for every quantized weight, quantizers on its edges, accumulator certificates on
  /// its nodes: what the last forward pass in eval mode computed with. Throws Error while widths are learned.
  graph::Graph freeze();

  std::vector<LayerAccumulator> accumulators();

  void load(torch::serialize::InputArchive& archive) override;  ///< takes float checkpoints too

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace crumb::qat
