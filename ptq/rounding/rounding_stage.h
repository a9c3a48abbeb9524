// Stages that choose codes layer by layer, on samples that pass through the earlier layers as rounded.
//
// Scales are fixed before codes are chosen, with the order and groups of the file: for each block the scale
// whose rounding loses least, each column weighed by the mean square of its input; or the scale of the spec's
// search.
//
// With float_inputs, the target is the output of the float network's layer on its own inputs y: with H = sum
// x x^T and G = sum y x^T, x being the inputs in the quantized network and d the damping, codes approximate W
// (G + d) (H + d)^-1. If the layer has branches, with V the sum of W and their weights, the float layer
// outputs V y, and branches output their part of V x: codes approximate W + V (G - H) (H + d)^-1.
//
// With accumulator=P, sums of an output's integer products, or of `tile` terms of them, stay within P bits
// for any input (accumulator_limits.h); then codes and scales are not improved alternately. Biases are added
// to these sums.
#pragma once

#include <string_view>
#include <vector>

#include "ptq/rounding/code_walk.h"
#include "ptq/rounding/layer_rounding.h"
#include "ptq/stages.h"

namespace crumb::ptq {

/// Chooses every layer's codes by that walk, and if `soft` has steps by learning after it. A layer whose
/// outputs lose more than by rounding keeps rounding, with a note; notes also name layers without samples.
/// Throws Error where there is no layer to round, a layer's inputs are not finite, or an accumulator is for
/// codes other than integers. Preconditions: the setting has samples, and check_register() does not throw.
StageReport round_layers(const Stage& stage, Setting& setting, CodeWalkOf walk,
                         const SoftRounding& soft = {});

/// Throws usage Error for an impossible register width, or a tile without a register.
void check_register(const Stage& stage, const Setting& setting);

/// A way to round, with its name in the report.
struct Trial {
  std::string_view name;
  RoundingOptions options;
};

/// Returns the options of the stage, without a walk.
RoundingOptions options_of(const Stage& stage, const Setting& setting);

/// Rounds each layer by the trial that loses least of its outputs on the samples, the first of equal ones. A
/// note counts the choices. Throws as round_layers() does. Precondition: at least one trial.
StageReport round_layers_by_best(const Stage& stage, Setting& setting, const std::vector<Trial>& trials);

}  // namespace crumb::ptq
