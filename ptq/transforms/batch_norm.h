// The stage batch_norm corrects each channel's mean and variance, which codes change, without cost at run
// time: in the statistics of batch norms that the recipe keeps, and, where they are folded (or never were),
// in each layer's scales and bias.
//
// Samples run through the network with its codes and through the float network; each norm or layer is
// corrected after those before it. With mean m and deviation s of the float network's value, n and t of the
// quantized one's, x becomes (x - n) s / t + m:
//
//   a norm (x - mean) / sqrt(var + eps) * g + b gets the mean and the variance that do that; the float
//   network's own are those of its training, which the samples may not have. With own=on they are n and t^2
//   (re-estimation, as norm_correction in Brevitas)
//   a layer's scales are multiplied by s / t, output by output, and its bias follows
//
// The gain s / t is at most 4, at least 1/4. It is 1, so that only the mean is corrected, in channels that
// are constant (less than 1e-4 of the value's deviation) or whose squared error is smaller that way: codes by
// least squares (gptq) reduce variance on purpose.
#pragma once

#include "ptq/stages.h"

namespace crumb::ptq {

/// Rounds constants without codes; activations stay float. Reports the squared errors of each corrected
/// value, over its squares, before and after. If scales are not one for each output, or have a form that
/// takes no factor (scaled_rows.h), corrects the means alone, with a note. Throws Error where there is
/// nothing to correct, where a value has fewer than two numbers of a channel, or values that are not finite;
/// and where own=on finds no norm. Precondition: the setting has samples.
StageReport batch_norm(const Stage& stage, Setting& setting);

}  // namespace crumb::ptq
