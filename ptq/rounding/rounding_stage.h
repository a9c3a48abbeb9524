// Stages that choose the codes of layer after layer, on samples that come through the layers before it as they were rounded.
//
// Scales are fixed before any code is chosen, with order and groups as the file has them: for each block the scale whose
// rounding loses least, each column weighed by the mean square of its input; or those of the spec's search.
//
// With float_inputs, outputs are to stay those that the float network's layer gives on its own inputs y: with H = sum x x^T and
// G = sum y x^T, x being the inputs in the quantized network and d the damping, what outputs are held against is
// W (G + d) (H + d)^-1. Where adapters or single weights stand beside W, W with them being V, the float layer gives V y, and they
// give what they give on x: then it is W + V (G - H) (H + d)^-1.
//
// With accumulator=P sums of an output's products of integers, or of `tile` terms of them, stay within P bits whatever comes in
// (accumulator_limits.h); scales and codes are not improved in turns then. Biases come on top.
#pragma once

#include <string_view>
#include <vector>

#include "ptq/rounding/code_walk.h"
#include "ptq/rounding/layer_rounding.h"
#include "ptq/stages.h"

namespace crumb::ptq {

/// Every layer's codes by that walk, and by learning behind it where `soft` has steps. A layer whose outputs lose more than by
/// rounding keeps that, and a note says so; so do notes of layers that no sample reaches. Throws Error where no layer is to be
/// rounded, a layer's inputs are not finite, or an accumulator is asked of what is not integers. Preconditions: the setting has samples,
/// and check_register() does not throw.
StageReport round_layers(const Stage& stage, Setting& setting, CodeWalkOf walk,
                         const SoftRounding& soft = {});

/// Throws usage Error for a register of no such width, or a tile without one.
void check_register(const Stage& stage, const Setting& setting);

/// A way to round, by what it is called in the report.
struct Trial {
  std::string_view name;
  RoundingOptions options;
};

/// The options that the stage says, of no walk yet.
RoundingOptions options_of(const Stage& stage, const Setting& setting);

/// Each layer by the trial that loses least of its outputs on the samples, the first of equals. A note counts them. Throws the
/// same. Precondition: one at least.
StageReport round_layers_by_best(const Stage& stage, Setting& setting, const std::vector<Trial>& trials);

}  // namespace crumb::ptq
