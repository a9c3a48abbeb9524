// A frozen network with an adapter that trains (LoRA, Hu et al. 2021, arXiv:2106.09685; over codes: QLoRA,
// Dettmers et al. 2023, arXiv:2305.14314). The base stays packed; its weights are decoded for one product at
// a time.
//
//   graph::Graph packed = graph::read_crumb_graph("model.crumb");
//   qat::AdaptedNetwork network = qat::add_adapters(packed, {.rank = 16});
//   torch::optim::AdamW optimizer(network.parameters(), 1e-3);            // the adapter's matrices alone
//   for (...) {
//     auto loss = qat::distillation_loss(network.forward(x).at(0), teacher(x));
//     optimizer.zero_grad(); loss.backward(); optimizer.step();
//   }
//   graph::Graph recovered = network.freeze();                    // the same codes, and the adapter as nodes
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "graph/adapters.h"
#include "libtorch/execute/graph_module.h"
#include "qat/adapter_options.h"

namespace crumb::qat {

/// Returns an adapter that changes nothing yet, for the products whose matrices match and are kept as codes,
/// or, where none is kept as codes, for all that match. `down` is drawn evenly from +-1 / sqrt(in), as PEFT
/// draws it, `up` is zero. Throws usage Error where a target matches no matrix, and where the rank is 0 or
/// more than a matrix has rows or columns.
Adapter fresh_adapter(const graph::Graph& graph, const AdapterOptions& options);

class AdaptedNetwork : public torch::nn::Module {
 public:
  /// `graph` has the adapter `name` (graph/adapters.h); other adapters in it are frozen like the rest. Throws
  /// Error where the graph has no such adapter.
  AdaptedNetwork(graph::Graph graph, std::string name);

  /// Takes inputs and returns outputs in the graph's order.
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs) const;

  using torch::nn::Module::to;
  void to(torch::Device device, bool non_blocking = false) override;

  const libtorch::GraphModule& module() const { return *module_; }

  /// Returns the adapter as it is now, or replaces it. Throws Error where layers or shapes differ.
  Adapter adapter() const;
  void set(const Adapter& adapter);

  /// Returns the graph with the adapter as it is now; everything else keeps its bits.
  graph::Graph freeze(graph::AdapterType type = graph::AdapterType::kFloat32) const;

 private:
  struct Matrices {
    std::string module;
    at::Tensor down, up;  ///< [in, rank], [rank, out]
  };

  graph::Graph graph_;
  std::string name_;
  std::shared_ptr<libtorch::GraphModule> module_;
  std::vector<Matrices> matrices_;  ///< those of the adapter, one pair a layer
};

/// Returns the network with a fresh adapter.
AdaptedNetwork add_adapters(graph::Graph graph, const AdapterOptions& options);

}  // namespace crumb::qat
