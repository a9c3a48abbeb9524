// Whole graphs with some of their products in simulated registers; libtorch/engine.h has one on ATen.
#pragma once

#include <memory>

#include "analysis/accumulator/simulate.h"
#include "graph/engine.h"

namespace crumb::analysis {

class RegisterEngine {
 public:
  virtual ~RegisterEngine() = default;

  /// As Engine::prepare, with these of the graph's products in registers. A run throws Error where one overflows under
  /// kCheck: names layer, channel, sum and width. The value behind a product with a bias inside has that bias.
  virtual std::unique_ptr<graph::Executable> prepare(graph::Graph graph,
                                                     const AccumulatorSimulation& simulation) const = 0;
};

}  // namespace crumb::analysis
