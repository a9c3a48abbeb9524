// What a person should not miss of a quantized network: outputs that are far from those of the float network,
// quantizers that cut off much, and which of them to change.
#pragma once

#include <string>
#include <vector>

#include "jobs/quantize.h"

namespace crumb::jobs {

inline constexpr double kPoorOutput = 15;    ///< dB
inline constexpr double kMuchCutOff = 0.01;  ///< of a quantizer's values, by more than half a step

/// Sentences, none where all is well. The worst three quantizers of activations are named where an output has
/// less than kPoorOutput or one of them cuts off more than kMuchCutOff, each with what it costs alone and a
/// field of the recipe that mends it. `graph`: the float network as it was quantized.
std::vector<std::string> warnings_of(const QuantizeReport& report, const graph::Graph& graph,
                                     const Observer& observer);

}  // namespace crumb::jobs
