#include "ptq/rounding/gptq.h"

#include <utility>

#include "ptq/rounding/rounding_stage.h"

namespace crumb::ptq {

CodeWalk gptq_walk(const LayerTarget& layer) {
  return {.feedback = std::move(layer.feedback), .meant = layer.nearest, .starts = {}};
}

StageReport gptq(const Stage& stage, Setting& setting) { return round_layers(stage, setting, gptq_walk); }

}  // namespace crumb::ptq
