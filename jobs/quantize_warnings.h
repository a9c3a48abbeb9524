// Warnings about a quantized network: outputs that are far from those of the float network, quantizers that
// cut off much, and which of them to change.
#pragma once

#include <string>
#include <vector>

#include "jobs/quantize.h"

namespace crumb::jobs {

inline constexpr double kPoorOutput = 15;    ///< dB
inline constexpr double kMuchCutOff = 0.01;  ///< share of a quantizer's values that lie more than half a step
                                             ///< beyond its codes

/// Returns sentences, none where all is well. Names the worst three quantizers of activations where an output
/// has less than kPoorOutput or a quantizer cuts off more than kMuchCutOff, each with what it costs by itself
/// and a field of the recipe that mends it. `graph`: the float network that was quantized.
std::vector<std::string> warnings_of(const QuantizeReport& report, const graph::Graph& graph,
                                     const Observer& observer);

}  // namespace crumb::jobs
