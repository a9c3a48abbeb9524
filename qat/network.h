// A network that trains with its quantizers in the loop: a float graph, what a recipe says of it, and the
// parameters that quantizing adds.
//
//   graph::Graph graph = models::capture(*float_network, {example});      // or graph::read_onnx(...)
//   qat::Network network(std::move(graph), recipe);
//   network.calibrate({{x1}, {x2}});                                      // ranges of activations
//   torch::optim::AdamW optimizer(network.parameter_groups({.learning_rate = 1e-3, .weight_decay = 1e-4}));
//   for (...) {
//     network.advance(share_of_training_done);                   // where the recipe prunes or learns widths
//     auto loss = cross_entropy(network.forward(x), y) + network.penalty();
//     optimizer.zero_grad(); loss.backward(); optimizer.step();
//   }
//   graph::Graph quantized = network.freeze();                   // the same codes; no LibTorch from here on
//
// Quantizers are where graph/quantize plans them, as in post-training quantization. Weights, norms and biases
// of the float graph are parameters under their own names ("fc1.weight"), so a float checkpoint loads into
// the network, and the other way round; the quantizers' own parameters are under "quantizers.". In every
// forward pass weights are quantized by qat/weights/weight_quantizer.h, activations by
// qat/activations/activation_quantizer.h.
//
// Recurrent layers become cells of plain operators, one for each step of the example
// (graph::unroll_recurrent), with quantizers on everything inside: as the recipe says on the inputs of the
// products and of the gates' multiplications, with eight bits on sums and states. The frozen graph has the
// cells too, so that QONNX's tools execute it.
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
  /// Constrains the accumulators of the first and the last layer too; these layers keep 8-bit weights and
  /// inputs all the same.
  bool all_layers = false;
};

/// Which quantizers are active; the others pass values on.
struct ActiveQuantizers {
  bool weights = true;  ///< and biases, where activations are quantized too
  bool activations = true;
};

/// Activates quantizers one kind after another, by the number of the step:
/// network.set_active(schedule.at(step)).
struct QuantizerSchedule {
  std::int64_t weights_from = 0, activations_from = 0;
  ActiveQuantizers at(std::int64_t step) const {
    return {.weights = step >= weights_from, .activations = step >= activations_from};
  }
};

/// The state of one layer's accumulator, from its current codes.
struct LayerAccumulator {
  std::string name;  ///< the weight's name
  int bits = 0;      ///< the width that it is constrained to; 0: none
  int bits_needed =
      0;  ///< by the worst sums over all channels and tiles; 0: unknown (input not quantized, no ranges)
  std::int64_t repaired = 0;  ///< unit steps of exact repair in the last forward pass
};

class Network : public torch::nn::Module {
 public:
  /// Throws what plan_quantizers() throws, and Error naming layers that a recipe constrains but that cannot
  /// be constrained: without a quantized input, with a grid without zero, with a bias that leaves no budget.
  Network(graph::Graph graph, const Recipe& recipe, const NetworkOptions& options = {});
  ~Network() override;

  /// Takes inputs and returns outputs in the graph's order. In training mode (train()) statistics move; in
  /// eval mode nothing changes.
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs);
  at::Tensor forward(const at::Tensor& input);  ///< one input, the first output

  /// Returns what forward() runs, and the constants that it now runs with, for callers that run parts of it
  /// (libtorch/execute/cut_pass.h).
  const libtorch::GraphModule& graph_module() const;
  std::map<std::string, libtorch::TypedTensor> constants_of_now();

  /// Runs the float network: no quantizer, the current parameters.
  std::vector<at::Tensor> forward_float(const std::vector<at::Tensor>& inputs);

  /// Finds the scales of activations by the recipe's search, from samples that run through the float network;
  /// then the budgets and, for constrained layers, projects the weights into them (EP-init). Before the first
  /// forward pass.
  void calibrate(const std::vector<std::vector<at::Tensor>>& batches);

  /// Takes codes that were found earlier, by the names of their weights, whose values are those of the codes:
  /// these weights begin with the codes' scales instead of the search's. Before calibrate(). Ignores codes of
  /// names that are no constant of this network. Throws Error where they are not codes of the recipe's spec.
  void begin_with(std::map<std::string, graph::QuantizedConstant> codes);

  /// Fixes the codes of weights as they are; from now on their scales learn, with everything that is not
  /// quantized. Call it after calibrate(), and before load() of a network that was saved after it. Throws
  /// Error, naming the weights, where some have no scales that learn.
  void fix_codes();

  /// A parameter that holds quantized weights (whole, transposed, or several side by side), and for each of
  /// its elements the distance between the grid's values there (0: the element is in no quantized weight).
  struct Rounded {
    at::Tensor weight, steps;
  };
  /// After calibrate(). Leaves out weights that are computed in other ways.
  std::vector<Rounded> rounded_weights() const;

  /// Sets which quantizers are active in forward() from now on. All are at first; frozen graphs have all.
  void set_active(ActiveQuantizers active);

  /// Estimates mean and variance of every batch norm that the recipe keeps, from these samples, with the
  /// quantizers that are active: one after another, each from inputs that went through the earlier ones with
  /// their new statistics. Throws Error where there are no samples.
  void reestimate_batch_norm(const std::vector<std::vector<at::Tensor>>& batches);

  /// Returns what is added to the loss: the regulariser of all constrained layers, lambda included, and the
  /// price of learned widths; 0 where there is neither.
  at::Tensor penalty() const;

  /// Prunes, and holds learned widths to their budget, as the recipe says. Call it before every step, after
  /// calibrate(), with the share of the training that is done (0 to 1). From the middle of the training on
  /// widths are fixed, and within the budget.
  void advance(double progress);

  /// advance() for pruning alone: prunes as much as is due when this share of the training is done. Pruned
  /// weights are zero in forward().
  void prune(double progress);

  /// Returns the weights that have a goal of pruning.
  std::vector<PrunedLayer> pruned() const;

  /// Returns the widths of all quantized weights, where the recipe has `learned_bits`.
  std::optional<LearnedWidths> learned_widths() const;

  /// Returns weights (with decay), then norms and biases, scales, and learned widths without.
  std::vector<torch::optim::OptimizerParamGroup> parameter_groups(const Rates& rates) const;

  /// Returns the graph with a QuantizedTensor for every quantized weight, quantizers on its edges and
  /// accumulator certificates on its nodes: what the last forward pass in eval mode computed with. Throws
  /// Error while widths are learned.
  graph::Graph freeze();

  std::vector<LayerAccumulator> accumulators();

  void load(torch::serialize::InputArchive& archive) override;  ///< takes float checkpoints too

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace crumb::qat
