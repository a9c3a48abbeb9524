// Products of a network in simulated registers: analysis/accumulator/simulate.h in place of their kernels.
#pragma once

#include "analysis/accumulator/simulate.h"
#include "libtorch/execute/graph_module.h"

namespace crumb::libtorch {

/// From now on these nodes add up integers: inputs as their codes, sums times the scales, rounded once to the inputs'
/// type. A bias inside is in the product's own value; the Add of it passes that on. Under kCheck a node throws Error
/// where a register overflows.
void simulate(GraphModule& module, const analysis::AccumulatorSimulation& simulation);

}  // namespace crumb::libtorch
