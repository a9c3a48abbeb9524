#include "ptq/rounding/gpfq.h"

#include "base/threads/parallel.h"
#include "ptq/rounding/rounding_stage.h"

namespace crumb::ptq {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;

constexpr std::size_t kPathRows = 32;

/// Returns (G - H)_jk / H_kk for columns j up to each k, in their order: what G has and H does not.
MatrixXd missing(const LayerTarget& layer, const std::vector<std::size_t>& order) {
  const Eigen::VectorXd divisors = greedy_divisors(layer.moments, layer.damping);
  const Index size = layer.moments.rows();
  MatrixXd made = MatrixXd::Zero(size, size);
  for (std::size_t k = 0; k < order.size(); ++k) {
    const auto column = static_cast<Index>(order[k]);
    if (!(divisors[column] > 0)) continue;
    for (std::size_t j = 0; j <= k; ++j) {
      const auto row = static_cast<Index>(order[j]);
      made(row, column) = ((*layer.cross)(row, column) - layer.moments(row, column)) / divisors[column];
    }
  }
  return made;
}

}  // namespace

CodeWalk gpfq_walk(const LayerTarget& layer) {
  CodeWalk walk{.feedback = Feedback::greedy(layer.moments, layer.damping, layer.by_size),
                .meant = layer.weights,
                .starts = {}};
  if (!layer.cross) return walk;
  const MatrixXd factors = missing(layer, walk.feedback.order());
  const std::size_t columns = walk.feedback.size();
  walk.starts.assign(layer.weights.begin(), layer.weights.end());
  parallel_for(
      walk.starts.size() / columns, kPathRows, layer.threads, [&](std::size_t begin, std::size_t end) {
        using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
        Eigen::Map<Rows> part(walk.starts.data() + begin * columns, static_cast<Index>(end - begin),
                              static_cast<Index>(columns));
        const Eigen::Map<const Rows> whole(layer.whole.data() + begin * columns, part.rows(), part.cols());
        part = (part.cast<double>() + whole.cast<double>() * factors).cast<float>();
      });
  return walk;
}

StageReport gpfq(const Stage& stage, Setting& setting) { return round_layers(stage, setting, gpfq_walk); }

}  // namespace crumb::ptq
