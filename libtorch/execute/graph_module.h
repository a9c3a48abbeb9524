// A graph that runs: a torch::nn::Module whose parameters are the graph's weights.
//
//   GraphModule network(graph);                      // throws one Error that names every unsupported
//                                                    operator
//   auto outputs = network.run({typed(image)});
//
// Parameters are the floating constants of rank 1 and more, by their names in the graph, except what steers a
// quantizer or a shape; the rest, and what Constant nodes make, are buffers. named_parameters() and state
// dicts use those names ("." makes submodules). Gradients flow to inputs and parameters through every
// differentiable operator; run() keeps them, so wrap it in torch::NoGradGuard for inference. Values are
// dropped after their last use.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "libtorch/execute/plan.h"

namespace crumb::libtorch {

/// What becomes of constants of codes.
enum class Codes : std::uint8_t {
  kDecoded,  ///< float32 parameters
  kKept,     ///< codes for good, where packed_kernels.h knows all that take them; the others are decoded
};

struct GraphModuleOptions {
  std::set<std::string> given =
      {};  ///< constants that every run gets by `instead`: neither parameters nor buffers
  Codes codes = Codes::kDecoded;
  bool borrows =
      false;  ///< parameters and buffers lie in the graph's memory: for networks that are only executed
};

class GraphModule : public torch::nn::Module {
 public:
  /// Throws Error, which names every node that has no kernel, with type and domain.
  explicit GraphModule(graph::Graph graph, const GraphModuleOptions& options = {});

  /// Called with every value that a node made; may replace it.
  using Watch = Plan::Watch;

  /// Inputs in the graph's order; outputs too. Throws Error where an input's type, rank or a size that the
  /// graph fixes differs (symbols must agree among the inputs), and where an operator refuses its inputs,
  /// with the node and what it was given. Without gradients the memory of an input that the caller hands over
  /// (and keeps no handle of) may be overwritten. Not thread-safe where parameters change meanwhile.
  /// `instead`: constants, by their names in the graph, that have other values in this run; gradients flow to
  /// these.
  std::vector<TypedTensor> run(std::vector<TypedTensor> inputs, const Watch& watch = {},
                               const Plan::Constants& instead = {}) const;

  /// Plan::part and Plan::recompute_between of this network. A part runs by itself, as long as the module
  /// lives.
  Plan part(const std::vector<std::string>& given, const std::vector<std::string>& wanted) const {
    return plan_->part(graph_, given, wanted);
  }
  void recompute_between(const std::vector<std::string>& values) { plan_->recompute_between(graph_, values); }

  /// Replaces the kernel of the node that makes a value. Throws Error where no node does.
  void replace_maker(const std::string& value, Plan::Replacement replacement);

  /// The registered tensor of a constant, by its name in the graph: a parameter or a buffer.
  const at::Tensor& constant(const std::string& name) const { return constants_.at(name).tensor; }

  /// For networks that are only executed: computes what follows from constants alone once, now, on the
  /// constants' device. Later changes of parameters are not seen, and no gradient reaches them; runs that are
  /// watched compute everything. Called again, it takes the current parameters.
  void freeze();

  const graph::Graph& graph() const { return graph_; }

 private:
  void add_constant(const std::string& name, const TypedTensor& value, bool trains);
  void check_inputs(const std::vector<TypedTensor>& inputs) const;

  graph::Graph graph_;
  Plan::Constants constants_;  ///< the registered tensors themselves
  std::optional<Plan> plan_, frozen_;
};

/// The module's graph with the current parameters as initializers.
graph::Graph graph_of_now(const GraphModule& module);

/// The nodes that have no kernel: "node 'a' (If), node 'b' (my.domain::Foo)"; empty where all have one.
std::string unsupported_nodes(const graph::Graph& graph);

}  // namespace crumb::libtorch
