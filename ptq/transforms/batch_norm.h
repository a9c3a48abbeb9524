// The stage batch_norm: what codes change of the mean and the variance of each channel is taken back where it costs nothing as the
// network runs: in the statistics of batch norms that the recipe keeps, and where they are folded (or never were), in each layer's
// scales and bias.
//
// Samples run through the network with its codes and through the float network, from place to place; each place sees those before
// it as they are by then. With mean m and deviation s of what the float network gives there, n and t of what comes now, x
// becomes (x - n) s / t + m:
//
//   a norm (x - mean) / sqrt(var + eps) * g + b gets the mean and the variance by which it does that; the float network's own are those
//   of its training, which samples need not have. With own=on they are n and t^2 (re-estimation, as norm_correction in Brevitas)
//   a layer's scales are multiplied by s / t, output by output, and its bias follows
//
// The gain s / t is at most 4, at least 1/4. It stays 1, and the mean alone comes back, in channels that are constant (less than 1e-4
// of the place's deviation) or whose squared error is less so: codes by least squares (gptq) give less variance on purpose.
#pragma once

#include "ptq/stages.h"

namespace crumb::ptq {

/// Codes that are not chosen yet are those of rounding; activations run in floats. Reports the squared errors of what each place
/// gives, over squares, before and after. Where scales are not each output's own, or of a form that takes no factor
/// (scaled_rows.h), means come back alone, and a note says so. Throws Error where there is no place, where a place sees
/// fewer than two numbers of a channel, or values that are not finite; where own=on has no norm. Precondition: the setting has
/// samples.
StageReport batch_norm(const Stage& stage, Setting& setting);

}  // namespace crumb::ptq
