// Computes a node's product in registers, from its inputs. All engines replace their kernels by this
// (register_engine.h), so that they simulate the same.
#pragma once

#include <span>

#include "analysis/accumulator/simulate.h"

namespace crumb::analysis {

/// The first output of the layer's node. `inputs`: left-out ones have the unknown type. Inputs are taken as
/// their codes; sums times the scales are rounded once to the inputs' type. A bias inside is added in the
/// registers, another one behind them, in that type. Operators that requantize (ProductRule::requantizes)
/// give the sums, int64, with the bias. Throws Error, which names the layer or the node, where operands do
/// not fit or are not the layer's, and under kCheck where a register overflows.
graph::Tensor run_in_registers(SimulatedLayer& layer, const graph::Node& node,
                               std::span<const graph::Tensor> inputs, int threads = 0);

/// The result of the Add behind a product whose bias is inside (Product::bias_sum): the product's own value,
/// `output`, in the shape of the sum.
graph::Tensor pass_on_sum(const graph::Node& node, const std::string& output,
                          std::span<const graph::Tensor> inputs);

}  // namespace crumb::analysis
