// The jobs of crumb-bench graph that run in this process: a graph executed by Crumb, and the same network written with
// LibTorch's operators, as a user of LibTorch would write it. Free of LibTorch's headers; bench/torch has them.
#pragma once

#include <memory>
#include <vector>

#include "graph/graph.h"

namespace crumb::bench {

class GraphJob {
 public:
  virtual ~GraphJob() = default;
  /// The first output. From input tensors to an output tensor, conversions included, as `crumb run` does it.
  virtual graph::Tensor run() = 0;
};

/// For every job of this process, from now on.
void set_graph_threads(int threads);

/// Throws Error where the graph cannot be executed; null without LibTorch.
std::unique_ptr<GraphJob> make_graph_job(const graph::Graph& graph, std::vector<graph::Tensor> inputs);

/// With its quantizers, or without those of activations: less work than the network is, a floor. Null for networks
/// that nobody wrote by hand.
std::unique_ptr<GraphJob> make_torch_graph_job(const graph::Graph& graph, std::vector<graph::Tensor> inputs,
                                               bool quantizers);

}  // namespace crumb::bench
