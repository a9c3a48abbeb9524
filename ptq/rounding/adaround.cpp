#include "ptq/rounding/adaround.h"

#include "ptq/rounding/rounding_stage.h"

namespace crumb::ptq {
namespace {

CodeWalk target_walk(const LayerTarget& layer) {
  return {.feedback = Feedback::none(static_cast<std::size_t>(layer.moments.rows())),
          .meant = layer.nearest,
          .starts = {}};
}

}  // namespace

StageReport adaround(const Stage& stage, Setting& setting) {
  return round_layers(stage, setting, target_walk,
                      {.steps = static_cast<int>(stage.value("steps")), .rate = stage.value("rate")});
}

}  // namespace crumb::ptq
