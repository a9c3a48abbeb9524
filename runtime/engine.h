// Executes graphs without LibTorch: graph::Engine on the kernels of this room. With `exact`, results have the
// same bits for any number of threads, any batch and any instruction set; `fast` is an option of the caller.
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

  /// Throws one Error that names every node that cannot be executed, and why. Several threads may run the
  /// executable at once. The caller expands operators that are functions of other operators
  /// (graph/onnx/expand_functions.h).
  std::unique_ptr<graph::Executable> prepare(graph::Graph graph) const override;

  /// prepare(), but every value is computed in floats as the graph says, except those that have a substitute.
  /// Several threads may run the executable where they may run the substitutes.
  std::unique_ptr<graph::Executable> prepare_in_floats(graph::Graph graph,
                                                       const Substitutes& instead = {}) const;

  bool knows(const graph::Node& node) const override;

 private:
  int threads_;
  Promise promise_;
};

}  // namespace crumb::runtime
