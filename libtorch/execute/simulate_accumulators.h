// Products of a network in simulated registers, by analysis/accumulator/run_in_registers.h instead of their
// kernels.
#pragma once

#include "analysis/accumulator/simulate.h"
#include "libtorch/execute/graph_module.h"

namespace crumb::libtorch {

/// From now on these nodes compute in simulated registers, on the CPU whatever the device.
void simulate(GraphModule& module, const analysis::AccumulatorSimulation& simulation);

}  // namespace crumb::libtorch
