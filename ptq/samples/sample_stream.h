// Samples on their way through a network, from layer to layer: each node runs once for each sample, with the weights that
// those before it were given by then.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/engine.h"
#include "graph/graph.h"
#include "ptq/samples/sampled_layers.h"
#include "ptq/samples/tensor_spool.h"

namespace crumb::ptq {

/// Layers that can be rounded together, none being behind another, and what is known when samples stand before them.
struct Station {
  std::vector<SampledLayer> layers;
  std::vector<std::string> kept;  ///< values that are needed behind it, the layers' inputs among them
};

/// Along the graph. What depends on no layer is not kept: it is computed again where it is needed (masks, rotations).
/// Precondition: the graph is sorted.
std::vector<Station> stations_of(const graph::Graph& graph, const std::vector<SampledLayer>& layers);

class SampleStream {
 public:
  /// Values that are kept take at most `memory` bytes, and lie in a temporary file beyond that. The engine must outlive it.
  SampleStream(graph::Graph graph, const std::vector<Station>& stations, const graph::Engine& engine,
               std::uint64_t memory);

  /// To the next station. Then run() is called once for each sample, always in the same order.
  void advance();
  /// Takes a sample's inputs of the whole network; gives what it brings to the station's layers, by value.
  std::map<std::string, graph::Tensor> run(const std::vector<graph::Tensor>& inputs);

  /// Gives back the memory of the weights that samples came through. Precondition: all of them came, or none.
  void rest() { part_.reset(); }

  /// What the constant is from here on.
  void set_constant(const std::string& name, graph::QuantizedConstant codes);
  void set_constant(const std::string& name, graph::Tensor values);

  /// As it is by now.
  const graph::Graph& graph() const { return graph_; }

 private:
  graph::Graph graph_;
  const std::vector<Station>& stations_;
  const graph::Engine& engine_;
  std::size_t next_ = 0;                       ///< station
  std::unique_ptr<graph::Executable> part_;    ///< from the station before to that of now
  std::vector<std::string> inputs_, outputs_;  ///< of it
  std::vector<std::string> taken_, kept_;      ///< what lies of a sample in before_, and in after_
  std::vector<std::string> wanted_;            ///< by the station's layers
  TensorSpool before_, after_;
};

}  // namespace crumb::ptq
