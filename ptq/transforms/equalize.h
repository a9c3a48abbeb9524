// Stages that move factors between layers before rounding (channel_scaling.h); the network in floats stays what it is, up to the
// rounding of its numbers.
//
//   equalize   cross-layer equalization (Nagel et al. 2019, arXiv:1906.04721): channels of a layer's rows and of the next layer's
//              columns get the same range, factor sqrt(range of columns / range of rows); biases count with half of
//              themselves, or less where they are large (see the .cpp)
//   smooth     SmoothQuant (Xiao et al. 2022, arXiv:2211.10438): factors max|w|^(1 - alpha) / max|x|^alpha for what makes a value x,
//              w being all columns that take its channel, x over samples
#pragma once

#include "ptq/stages.h"

namespace crumb::ptq {

/// Reports the squared errors that rounding has before and after. Throws Error where no factor can move.
StageReport equalize(const Stage& stage, Setting& setting);

/// The same. Precondition: the setting has samples.
StageReport smooth(const Stage& stage, Setting& setting);

/// max|w|^(1 - alpha) / max|x|^alpha; 1 where either is next to nothing.
double smoothing_factor(double x, double w, double alpha);

}  // namespace crumb::ptq
