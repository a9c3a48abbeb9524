// The stage gptq (Frantar et al. 2022, arXiv:2210.17323): the weights whose outputs are those that are to stay, rounded column by
// column as feedback.h has it.
#pragma once

#include "ptq/rounding/code_walk.h"
#include "ptq/stages.h"

namespace crumb::ptq {

CodeWalk gptq_walk(const LayerTarget& layer);

/// As round_layers() has it (rounding_stage.h).
StageReport gptq(const Stage& stage, Setting& setting);

}  // namespace crumb::ptq
