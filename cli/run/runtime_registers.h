// Products in simulated registers on the runtime, without LibTorch. (analysis/ and runtime/ do not know each
// other.)
#pragma once

#include "analysis/accumulator/register_engine.h"

namespace crumb::cli {

class RuntimeRegisters final : public analysis::RegisterEngine {
 public:
  /// threads: 0 for those that the machine has.
  explicit RuntimeRegisters(int threads = 0) : threads_(threads) {}

  /// Prepares a graph as for_registers() makes it. Throws one Error that names every node that cannot be
  /// executed; nodes that requantize their sums are among them, as in plain runs.
  std::unique_ptr<graph::Executable> prepare(
      graph::Graph graph, const analysis::AccumulatorSimulation& simulation) const override;

 private:
  int threads_;
};

}  // namespace crumb::cli
