// Runs whole graphs with some of their products in simulated registers: cli/run/runtime_registers.h has such
// an engine on the runtime, libtorch/engine.h one on ATen. Both replace the products' kernels by
// run_in_registers.h.
#pragma once

#include <memory>

#include "analysis/accumulator/simulate.h"
#include "graph/engine.h"

namespace crumb::analysis {

class RegisterEngine {
 public:
  virtual ~RegisterEngine() = default;

  /// As Engine::prepare, with these products of the graph in registers. Under kCheck a run throws Error where
  /// a register overflows, which names layer, channel, sum and width. Where a bias is inside of a product,
  /// the value behind the product includes it.
  virtual std::unique_ptr<graph::Executable> prepare(graph::Graph graph,
                                                     const AccumulatorSimulation& simulation) const = 0;
};

}  // namespace crumb::analysis
