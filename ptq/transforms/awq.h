// The stage awq scales the channels of layers' inputs by factors, chosen by the effect of rounding on outputs
// (AWQ, Lin et al. 2023, arXiv:2306.00978). The float network stays the same, up to the rounding of its
// numbers.
//
// What produces a value x (a norm's gain, rows of a matrix) is divided by s, and the columns that take it are
// multiplied by s, so that columns with large inputs lose less. With r the root mean square of each channel
// of x over samples, s is r^a over sqrt(max r^a min r^a), for a = 0, 1/steps, ... below 1; with `weights`
// also r^a / m^(1 - a), m being the mean magnitude of the channel's columns, each over the largest of its
// matrix. The stage chooses the s for which rounding, by the specs and their searches, changes the outputs of
// all consumers of x least: squares of (Q(W s) / s - W) x, summed over samples.
#pragma once

#include "ptq/stages.h"

namespace crumb::ptq {

/// Reports squared errors of outputs. Throws Error where there is no site for factors or inputs are not
/// finite. Precondition: the setting has samples.
StageReport awq(const Stage& stage, Setting& setting);

}  // namespace crumb::ptq
