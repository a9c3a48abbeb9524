// The stage clip chooses block scales by the effect of rounding on outputs, and the nearest codes under them:
// AWQ's step after its factors (Lin et al. 2023, arXiv:2306.00978), for each block alone.
#pragma once

#include "ptq/rounding/code_walk.h"
#include "ptq/stages.h"

namespace crumb::ptq {

CodeWalk nearest_walk(const LayerTarget& layer);

/// Does what rounding_stage.h says; with `sweeps` it improves codes and scales alternately (descent.h).
StageReport clip(const Stage& stage, Setting& setting);

}  // namespace crumb::ptq
