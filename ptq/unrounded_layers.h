// Why a stage that rounds layers on samples finds none.
#pragma once

#include <string>

#include "ptq/stages.h"

namespace crumb::ptq {

/// Of every constant that a layer multiplies by, why no stage rounds it on samples, each reason once with the first that has it:
/// ": 'w' stays, excluded by --exclude; 'v' is taken by node 'b' (Gemm), which ...". Empty where there is none such.
std::string reasons_of_unrounded_layers(const Setting& setting);

}  // namespace crumb::ptq
