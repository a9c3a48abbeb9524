#include "ptq/layer_moments.h"

#include <algorithm>

#include "base/error.h"

namespace crumb::ptq {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using graph::Tensor;

/// Samples that were visited, kept until others are there.
struct Kept {
  std::vector<float> values;
  std::size_t samples;
};

}  // namespace

StationMoments::StationMoments(const graph::Graph& graph, const Station& station, bool with_cross)
    : graph_(graph), with_cross_(with_cross) {
  for (const SampledLayer& layer : station.layers) {
    if (std::ranges::any_of(all_, [&](const Inputs& one) { return one.like.takes_like(layer, graph); }))
      continue;
    const auto size = static_cast<Index>(layer.columns);
    const std::vector<MatrixXd> none(layer.groups, MatrixXd::Zero(size, size));
    all_.push_back(
        {.like = layer, .sums = {.moments = none, .cross = with_cross ? none : std::vector<MatrixXd>()}});
  }
}

void StationMoments::add(const std::map<std::string, Tensor>& brought,
                         const std::map<std::string, Tensor>& floats, int threads) {
  for (Inputs& one : all_) {
    const graph::Node& node = graph_.nodes[one.like.node];
    std::vector<Kept> others;
    if (with_cross_)
      visit_samples(node, graph_, one.like, floats.at(one.like.input),
                    [&](std::size_t, const SampleColumns& y) {
                      others.push_back({{y.values.begin(), y.values.end()}, y.samples});
                    });
    std::size_t next = 0;
    visit_samples(node, graph_, one.like, brought.at(one.like.input),
                  [&](std::size_t group, const SampleColumns& x) {
                    if (x.samples == 0) return;
                    add_moments(one.sums.moments[group], x, threads);
                    if (!with_cross_) return;
                    const Kept& other = others.at(next++);
                    add_cross_moments(one.sums.cross[group], {other.values, other.samples}, x, threads);
                  });
  }
}

const LayerMoments& StationMoments::of(const SampledLayer& layer) const {
  const auto found =
      std::ranges::find_if(all_, [&](const Inputs& one) { return one.like.takes_like(layer, graph_); });
  if (found == all_.end()) throw Error("no layer of this station takes value '" + layer.input + "'");
  return found->sums;
}

}  // namespace crumb::ptq
