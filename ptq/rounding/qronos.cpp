#include "ptq/rounding/qronos.h"

#include "ptq/rounding/gptq.h"
#include "ptq/rounding/rounding_stage.h"

namespace crumb::ptq {

CodeWalk qronos_walk(const LayerTarget& layer) {
  const double damping = layer.feedback.damping();
  CodeWalk walk = gptq_walk(layer);
  if (!layer.cross) return walk;
  const Eigen::MatrixXd &moments = layer.moments, &cross = *layer.cross;
  const std::size_t columns = walk.feedback.size(), first = walk.feedback.order()[0];
  const auto at = static_cast<Eigen::Index>(first);
  const double own = moments(at, at) + damping * moments.diagonal().mean();
  const Eigen::VectorXd missing = (cross.col(at) - moments.col(at)) / own;
  walk.starts.assign(walk.meant.begin(), walk.meant.end());
  for (std::size_t begin = 0; begin < layer.weights.size(); begin += columns) {
    double target = static_cast<double>(layer.weights[begin + first]);
    for (std::size_t j = 0; j < columns; ++j)
      target += static_cast<double>(layer.whole[begin + j]) * missing[static_cast<Eigen::Index>(j)];
    walk.starts[begin + first] = static_cast<float>(target);
  }
  return walk;
}

StageReport qronos(const Stage& stage, Setting& setting) { return round_layers(stage, setting, qronos_walk); }

}  // namespace crumb::ptq
