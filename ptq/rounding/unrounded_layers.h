// Which layers a stage that rounds on samples leaves out, and why.
#pragma once

#include <string>

#include "ptq/rounding/station_rounding.h"
#include "ptq/stages.h"

namespace crumb::ptq {

/// Returns why weights of layers are not rounded on samples, each reason once with the first weight: ": 'w'
/// stays, excluded by --exclude; 'v' is taken by node 'b' (Gemm), which ...". Empty if there are none.
std::string reasons_of_unrounded_layers(const Setting& setting);

/// Returns the same for weights that become codes, have none yet, and are not in `parts`, so that they keep
/// rounding; without ": ".
std::string layers_beside(const RoundedParts& parts, const Setting& setting);

}  // namespace crumb::ptq
