#include "ptq/rounding/clip.h"

#include "ptq/rounding/rounding_stage.h"

namespace crumb::ptq {

CodeWalk nearest_walk(const LayerTarget& layer) {
  return {.feedback = Feedback::none(static_cast<std::size_t>(layer.moments.rows())),
          .meant = layer.weights,
          .starts = {}};
}

StageReport clip(const Stage& stage, Setting& setting) { return round_layers(stage, setting, nearest_walk); }

}  // namespace crumb::ptq
