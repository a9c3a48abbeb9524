// The stage bias_correction adds to a layer's bias what codes change in the mean of its outputs, b + W
// mean(y) - Q mean(x): y is the layer's input in the float network on samples, x that in the network with
// codes (`values`: and with quantizers between its layers) after correcting earlier layers (Nagel et al.
// 2019, arXiv:1906.04721, section 4.2, with measured means).
#pragma once

#include "ptq/stages.h"

namespace crumb::ptq {

/// Leaves layers without their own bias as they are, and notes how many. Reports squared means: of the
/// outputs' changes, over those of the outputs. Afterwards all constants have codes, by rounding if no stage
/// chose any. Throws Error where no layer has a bias, or inputs are not finite. Precondition: the setting has
/// samples.
StageReport bias_correction(const Stage& stage, Setting& setting);

}  // namespace crumb::ptq
