// The stage clip: scales of blocks by what rounding does to outputs, and the nearest codes under them; what AWQ does behind its factors
// (Lin et al. 2023, arXiv:2306.00978), for each block by itself.
#pragma once

#include "ptq/rounding/code_walk.h"
#include "ptq/stages.h"

namespace crumb::ptq {

CodeWalk nearest_walk(const LayerTarget& layer);

/// As rounding_stage.h says; with `sweeps` codes and scales are improved in turns (descent.h).
StageReport clip(const Stage& stage, Setting& setting);

}  // namespace crumb::ptq
