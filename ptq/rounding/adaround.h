// The stage adaround learns for each weight whether it is rounded up or down, layer by layer
// (soft_rounding.h; AdaRound, Nagel et al. 2020, arXiv:2004.10568). It uses second moments of the layer's
// inputs instead of the samples themselves.
#pragma once

#include "ptq/rounding/code_walk.h"
#include "ptq/stages.h"

namespace crumb::ptq {

/// Does what rounding_stage.h says. With float_inputs the target outputs are the float network's: AdaRound's
/// asymmetric form.
StageReport adaround(const Stage& stage, Setting& setting);

}  // namespace crumb::ptq
