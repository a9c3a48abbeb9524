// One node of a graph whose product is added up in registers: by its inputs, what it makes. Engines put this in place
// of their kernels (register_engine.h), so that what is simulated is the same in all of them.
#pragma once

#include <span>

#include "analysis/accumulator/simulate.h"

namespace crumb::analysis {

/// The first output of the layer's node. `inputs`: what is left out has the unknown type. Inputs count as their codes; sums
/// times the scales are rounded once to the inputs' type. A bias inside is in the registers, another one is added behind
/// them, in that type. Of operators that requantize (ProductRule::requantizes) these are the sums, int64, with the bias.
/// Throws Error, which names the layer or the node, where operands do not fit or are none that the layer has, and under
/// kCheck where a register overflows.
graph::Tensor run_in_registers(SimulatedLayer& layer, const graph::Node& node,
                               std::span<const graph::Tensor> inputs, int threads = 0);

/// What the Add behind a product makes of a bias that lies inside (Product::bias_sum): the product's own value,
/// `output`, in the shape of the sum.
graph::Tensor pass_on_sum(const graph::Node& node, const std::string& output,
                          std::span<const graph::Tensor> inputs);

}  // namespace crumb::analysis
