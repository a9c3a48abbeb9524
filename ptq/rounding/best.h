// The stage best rounds each layer in the way that loses least of its outputs on the samples (crumb quantize
// --method auto).
#pragma once

#include "ptq/stages.h"

namespace crumb::ptq {

/// Tries the first `trials` of: gptq with sweeps; the same with columns in their own order; qronos with
/// sweeps; gptq with a tenth of the damping; with ten times as much; nearest codes with sweeps; gpfq with
/// sweeps. Reports as rounding_stage.h says.
StageReport best(const Stage& stage, Setting& setting);

}  // namespace crumb::ptq
