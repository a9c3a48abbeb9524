// Runs samples through a network from layer to layer: each node runs once for each sample, with the weights
// that earlier layers have by then.
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

/// Layers that can be rounded together because none depends on another, and the values that are kept when
/// samples reach them.
struct Station {
  std::vector<SampledLayer> layers;
  std::vector<std::string> kept;  ///< values that later stations need, the layers' inputs among them
};

/// Returns the stations along the graph. Values that depend on no layer (masks, rotary embeddings) are not
/// kept but computed again. Precondition: the graph is sorted.
std::vector<Station> stations_of(const graph::Graph& graph, const std::vector<SampledLayer>& layers);

class SampleStream {
 public:
  /// Kept values take at most `memory` bytes; more go to a temporary file. The engine must outlive this.
  SampleStream(graph::Graph graph, const std::vector<Station>& stations, const graph::Engine& engine,
               std::uint64_t memory);

  /// Moves to the next station. Then the caller runs run() once for each sample, always in the same order.
  void advance();
  /// Takes a sample's inputs of the whole network; returns the inputs of the station's layers, by value.
  std::map<std::string, graph::Tensor> run(const std::vector<graph::Tensor>& inputs);

  /// Frees the memory of the weights through which samples ran. Precondition: all samples ran, or none.
  void rest() { part_.reset(); }

  /// Sets the constant for all later stations.
  void set_constant(const std::string& name, graph::QuantizedConstant codes);
  void set_constant(const std::string& name, graph::Tensor values);

  /// Returns the graph with the constants set so far.
  const graph::Graph& graph() const { return graph_; }

 private:
  graph::Graph graph_;
  const std::vector<Station>& stations_;
  const graph::Engine& engine_;
  std::size_t next_ = 0;                       ///< index of the next station
  std::unique_ptr<graph::Executable> part_;    ///< runs from the previous station to the current one
  std::vector<std::string> inputs_, outputs_;  ///< of part_
  std::vector<std::string> taken_, kept_;      ///< values of each sample stored in before_ and in after_
  std::vector<std::string> wanted_;            ///< inputs of the station's layers
  TensorSpool before_, after_;
};

}  // namespace crumb::ptq
