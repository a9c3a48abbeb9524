// The stage bias_correction: what codes change of the mean of a layer's outputs goes into its bias, b + W mean(y) - Q mean(x): y is what
// the float network brings to the layer on samples, x what the network brings with its codes (`values`: and with quantizers between
// its layers), the layers before corrected (Nagel et al. 2019, arXiv:1906.04721, section 4.2, with the means measured).
#pragma once

#include "ptq/stages.h"

namespace crumb::ptq {

/// Layers without a bias of their own stay, and a note says how many. Reports squared means of outputs, of what codes change over
/// all. All constants have their codes from there on, those that are not chosen yet by rounding. Throws Error where no layer has a bias,
/// or inputs are not finite. Precondition: the setting has samples.
StageReport bias_correction(const Stage& stage, Setting& setting);

}  // namespace crumb::ptq
