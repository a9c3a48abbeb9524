// What a stage that rounds layers on samples leaves, and why.
#pragma once

#include <string>

#include "ptq/rounding/station_rounding.h"
#include "ptq/stages.h"

namespace crumb::ptq {

/// Of every constant that a layer multiplies by, why no stage rounds it on samples, each reason once with the first that has it:
/// ": 'w' stays, excluded by --exclude; 'v' is taken by node 'b' (Gemm), which ...". Empty where there is none such.
std::string reasons_of_unrounded_layers(const Setting& setting);

/// The same of those alone that become codes, have none yet, and are none of the parts, so that they keep rounding; without ": ".
std::string layers_beside(const RoundedParts& parts, const Setting& setting);

}  // namespace crumb::ptq
