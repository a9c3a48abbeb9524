// The stage awq: factors for the channels that layers take in, by what rounding then does to their outputs (AWQ, Lin et al. 2023,
// arXiv:2306.00978); in floats the network stays what it is, up to the rounding of its numbers.
//
// What makes a value x (the gain of a norm, rows of a matrix) is divided by s, and the columns that take it are multiplied by s, so
// that columns with large inputs lose less. With r the root of the mean square of each channel of x over samples, s is r^a over
// sqrt(max r^a min r^a), for a = 0, 1/steps, ... below 1; with `weights` also r^a / m^(1 - a), m the mean magnitude of the channel's
// columns, each over the largest of its matrix. The one stays whose rounding, by the specs and their searches, changes the outputs
// of all that take x least: squares of (Q(W s) / s - W) x, summed over samples.
#pragma once

#include "ptq/stages.h"

namespace crumb::ptq {

/// Reports squared errors of outputs. Throws Error where no factor can move or inputs are not finite. Precondition: the setting has samples.
StageReport awq(const Stage& stage, Setting& setting);

}  // namespace crumb::ptq
