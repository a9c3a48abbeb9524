// The stage adaround: whether each weight is rounded up or down is learned, layer by layer (soft_rounding.h; AdaRound, Nagel et al. 2020,
// arXiv:2004.10568), from second moments of what the layer takes in instead of the samples themselves.
#pragma once

#include "ptq/rounding/code_walk.h"
#include "ptq/stages.h"

namespace crumb::ptq {

/// As rounding_stage.h says: with float_inputs the outputs that are to stay are the float network's, AdaRound's asymmetric form.
StageReport adaround(const Stage& stage, Setting& setting);

}  // namespace crumb::ptq
