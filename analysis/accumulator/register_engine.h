// Whole graphs with some of their products in simulated registers: cli/run/runtime_registers.h has one on the
// runtime, libtorch/engine.h one on ATen. What they put in place of the products' kernels is
// run_in_registers.h in both.
#pragma once

#include <memory>

#include "analysis/accumulator/simulate.h"
#include "graph/engine.h"

namespace crumb::analysis {

class RegisterEngine {
 public:
  virtual ~RegisterEngine() = default;

  /// As Engine::prepare, with these of the graph's products in registers. A run throws Error where one
  /// overflows under kCheck: names layer, channel, sum and width. The value behind a product with a bias
  /// inside has that bias.
  virtual std::unique_ptr<graph::Executable> prepare(graph::Graph graph,
                                                     const AccumulatorSimulation& simulation) const = 0;
};

}  // namespace crumb::analysis
