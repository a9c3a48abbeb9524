// A graph that runs: a torch::nn::Module whose parameters are the graph's weights.
//
//   GraphModule network(graph);                      // throws one Error that names every unsupported operator
//   auto outputs = network.run({typed(image)});
//
// Parameters are the floating constants of rank 1 and more, by their names in the graph, except what steers a
// quantizer or a shape; the rest are buffers. named_parameters() and state dicts use those names ("." makes
// submodules). Gradients flow to inputs and parameters through every differentiable operator; run() keeps them,
// so wrap it in torch::NoGradGuard for inference. Values are dropped after their last use.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "models/torch/execute/operator.h"

namespace crumb::torch_ops {

/// In Graph::metadata: the names of further initializers that do not train, one a line.
inline constexpr const char* kBuffersKey = "crumb.buffers";

class GraphModule : public torch::nn::Module {
 public:
  /// Throws Error naming every node that has no kernel, with type and domain.
  explicit GraphModule(graph::Graph graph);

  /// Called with every value that a node made; may replace it.
  using Watch = std::function<TypedTensor(const std::string& value, TypedTensor made)>;

  /// Inputs in the graph's order; outputs too. Throws Error where an input's type, rank or a size that the graph
  /// fixes differs (symbols must agree among the inputs), and where an operator refuses its inputs, with the node
  /// and what it was given. Not thread-safe where parameters change meanwhile.
  std::vector<TypedTensor> run(std::vector<TypedTensor> inputs, const Watch& watch = {}) const;

  const graph::Graph& graph() const { return graph_; }

 private:
  struct Step {
    std::size_t node;
    Kernel kernel;
    std::vector<std::size_t> inputs;  ///< slots; kNoSlot where left out
    std::vector<std::size_t> outputs;
    std::vector<std::size_t> last_used;  ///< slots that are not wanted after this step
  };
  static constexpr std::size_t kNoSlot = ~std::size_t{0};

  void compile();
  void add_constant(const std::string& name, const graph::Tensor& constant, bool trains);
  void check_inputs(const std::vector<TypedTensor>& inputs) const;

  graph::Graph graph_;
  std::vector<Step> steps_;
  std::map<std::string, TypedTensor> constants_;  ///< the registered tensors themselves, by the graph's names
  std::vector<std::pair<std::size_t, TypedTensor>> constant_slots_;
  std::vector<std::size_t> input_slots_;
  std::vector<std::size_t> output_slots_;
  std::size_t slots_ = 0;
};

/// The nodes that nobody can compute: "node 'a' (If), node 'b' (my.domain::Foo)"; empty where there are none.
std::string unsupported_nodes(const graph::Graph& graph);

}  // namespace crumb::torch_ops
