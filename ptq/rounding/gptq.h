// The stage gptq (Frantar et al. 2022, arXiv:2210.17323): rounds the weights with the target outputs column
// by column as feedback.h says.
#pragma once

#include "ptq/rounding/code_walk.h"
#include "ptq/stages.h"

namespace crumb::ptq {

CodeWalk gptq_walk(const LayerTarget& layer);

/// Does what round_layers() says (rounding_stage.h).
StageReport gptq(const Stage& stage, Setting& setting);

}  // namespace crumb::ptq
