// What executes graphs, without saying how: passes, calibration and the command line need results, not LibTorch.
// libtorch/engine.h has the one on ATen.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::analysis {
struct AccumulatorSimulation;  // analysis/accumulator/simulate.h
}

namespace crumb::graph {

/// A graph, ready to run. Not thread-safe.
class Executable {
 public:
  Executable() = default;
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  virtual ~Executable() = default;

  /// Called with every value that a node made.
  using Watch = std::function<void(const std::string& value, const Tensor& made)>;

  /// Inputs and outputs in the graph's order. Throws Error where an input's type or shape is none that the graph
  /// takes, and where an operator refuses its inputs; names input or node.
  virtual std::vector<Tensor> run(const std::vector<Tensor>& inputs, const Watch& watch = {}) const = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;

  /// Throws one Error that names every node that cannot be executed.
  virtual std::unique_ptr<Executable> prepare(Graph graph) const = 0;

  /// The same, with these of the graph's products in simulated registers. A run throws Error where one overflows under
  /// kCheck: names layer, channel, sum and width. The value behind a product with a bias inside has that bias.
  virtual std::unique_ptr<Executable> prepare_simulated(
      Graph graph, const analysis::AccumulatorSimulation& simulation) const = 0;

  /// Whether it has the operator.
  virtual bool knows(const Node& node) const = 0;

  /// "cpu" (the default), "cuda": where what is prepared from now on runs. Throws Error where there is no such
  /// device. threads: 0 for those the machine has.
  virtual void use(const std::string& device, int threads) = 0;

  /// What a TorchScript archive takes, in order; and the archive as a graph. The file holds no shapes: they are the
  /// example's, but for the batch. Throws Error (libtorch/capture/torchscript.h).
  virtual std::vector<std::string> torchscript_inputs(const std::filesystem::path& path) const = 0;
  virtual Graph read_torchscript(const std::filesystem::path& path,
                                 const std::vector<Tensor>& example) const = 0;
};

}  // namespace crumb::graph
