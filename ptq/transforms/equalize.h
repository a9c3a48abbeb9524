// Stages that move factors between layers before rounding (channel_scaling.h); the float network stays the
// same, up to the rounding of its numbers.
//
//   equalize   cross-layer equalization (Nagel et al. 2019, arXiv:1906.04721): channels of a layer's rows and
//              of the next layer's columns get the same range, factor sqrt(range of columns / range of rows);
//              biases count half, or less if they are large (see the .cpp)
//   smooth     SmoothQuant (Xiao et al. 2022, arXiv:2211.10438): factors max|w|^(1 - alpha) / max|x|^alpha
//              for what produces a value x, w being all columns that take its channel, x over samples
#pragma once

#include "ptq/stages.h"

namespace crumb::ptq {

/// Reports the squared errors of rounding before and after. Throws Error where there is no site for factors.
StageReport equalize(const Stage& stage, Setting& setting);

/// Does the same for smooth. Precondition: the setting has samples.
StageReport smooth(const Stage& stage, Setting& setting);

/// Returns max|w|^(1 - alpha) / max|x|^alpha; 1 where either is nearly 0.
double smoothing_factor(double x, double w, double alpha);

}  // namespace crumb::ptq
