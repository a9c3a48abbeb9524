#include "ptq/rounding/best.h"

#include "ptq/rounding/clip.h"
#include "ptq/rounding/gpfq.h"
#include "ptq/rounding/gptq.h"
#include "ptq/rounding/qronos.h"
#include "ptq/rounding/rounding_stage.h"

namespace crumb::ptq {

StageReport best(const Stage& stage, Setting& setting) {
  RoundingOptions usual = options_of(stage, setting);
  usual.walk = gptq_walk;
  usual.by_size = true;
  std::vector<Trial> trials(kWaysOfBest, {.name = "gptq", .options = usual});
  trials[1].name = "gptq as columns lie";
  trials[1].options.by_size = false;
  trials[2].name = "qronos";
  trials[2].options.walk = qronos_walk;
  trials[3].name = "gptq with a tenth of the damping";
  trials[3].options.damping = usual.damping / 10;
  trials[4].name = "gptq with ten times the damping";
  trials[4].options.damping = usual.damping * 10;
  trials[5].name = "sweeps over the nearest";
  trials[5].options.walk = nearest_walk;
  trials[6].name = "gpfq";
  trials[6].options.walk = gpfq_walk;
  trials.resize(static_cast<std::size_t>(stage.value("trials")));
  return round_layers_by_best(stage, setting, trials);
}

}  // namespace crumb::ptq
