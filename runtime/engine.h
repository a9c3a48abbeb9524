// Graphs executed without LibTorch: graph::Engine on the kernels of this room. `exact`: the same bits whatever the threads,
// the batch and the instruction set; `fast` is for those who ask.
#pragma once

#include <memory>

#include "graph/engine.h"
#include "runtime/operator.h"

namespace crumb::runtime {

class Engine final : public graph::Engine {
 public:
  /// threads: 0 for those that the machine has.
  explicit Engine(int threads = 0, Promise promise = Promise::kExact)
      : threads_(threads), promise_(promise) {}

  /// Throws one Error that names every node that cannot be executed, and why. The executable may be run by many threads at
  /// once. Operators that are functions of others are expanded by the caller (graph/onnx/expand_functions.h).
  std::unique_ptr<graph::Executable> prepare(graph::Graph graph) const override;

  /// The same, computing every value of the graph in floats as the graph says, but for those that have a substitute. By
  /// many threads at once where substitutes may be.
  std::unique_ptr<graph::Executable> prepare_in_floats(graph::Graph graph,
                                                       const Substitutes& instead = {}) const;

  bool knows(const graph::Node& node) const override;

 private:
  int threads_;
  Promise promise_;
};

}  // namespace crumb::runtime
