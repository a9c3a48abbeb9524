// The stage bias_correction: what codes instead of weights change of the mean of a layer's outputs goes into its bias,
// b + (W - Q) mean(x), x being what the float network brings to the layer on samples, so that each layer is corrected for itself
// (Nagel et al. 2019, arXiv:1906.04721, section 4.2, with the mean measured).
#pragma once

#include "ptq/stages.h"

namespace crumb::ptq {

/// Layers without a bias of their own stay, and a note says how many. Reports squared means of outputs, of what codes change over
/// all. Codes that are not chosen yet are those of rounding. Throws Error where no layer has a bias, or inputs are not finite;
/// usage Error without samples.
StageReport bias_correction(const Stage& stage, Setting& setting);

}  // namespace crumb::ptq
