// crumb run --accumulator: products in simulated registers.
#pragma once

#include <string>
#include <vector>

#include "analysis/accumulator/simulate.h"
#include "cli/flags/verb.h"

namespace crumb::cli {

struct RunAccumulatorFlags {
  std::string bits;      ///< of each register; "": nothing is simulated
  std::string overflow;  ///< check, wrap, saturate; "": check
  std::vector<std::string> ranges;
  bool constrained_only = false;  ///< leaves out layers that training did not constrain
};

void add_accumulator_flags(CLI::App& verb, RunAccumulatorFlags& options);

/// Says on stderr which layers are not simulated, and why. Throws Error for flags that contradict each other,
/// and where no layer can be simulated.
analysis::AccumulatorSimulation simulate_accumulators(const graph::Graph& graph,
                                                      const RunAccumulatorFlags& options);

/// Prints the registers' overflows on stderr.
void note_overflows(const analysis::AccumulatorSimulation& simulation);

}  // namespace crumb::cli
