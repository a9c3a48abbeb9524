#include "ptq/layer_moments.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <utility>

#include "base/error.h"

namespace crumb::ptq {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using graph::Tensor;

/// What each sample is multiplied by.
std::vector<float> evening_factors(const SampleColumns& x) {
  std::vector<double> squares(x.samples);
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t t = 0; t < x.samples; ++t) {
      const auto value = static_cast<double>(x.values[i * x.samples + t]);
      squares[t] += value * value;
    }
  std::vector<float> factors(x.samples, 1.0F);
  std::vector<double> sorted;
  std::ranges::copy_if(squares, std::back_inserter(sorted), [](double square) { return square > 0; });
  if (sorted.empty()) return factors;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  for (std::size_t t = 0; t < x.samples; ++t)
    if (squares[t] > *middle) factors[t] = static_cast<float>(std::sqrt(*middle / squares[t]));
  return factors;
}

std::vector<float> times(const SampleColumns& x, const std::vector<float>& factors) {
  std::vector<float> made(x.values.begin(), x.values.end());
  for (std::size_t i = 0; i < made.size(); ++i) made[i] *= factors[i % x.samples];
  return made;
}

bool are_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

/// Samples that were visited, kept until others are there.
struct Kept {
  std::vector<float> values;
  std::size_t samples;
};

}  // namespace

std::string fault_of(const LayerMoments& sums) {
  const auto is_finite = [](const MatrixXd& sum) { return sum.allFinite(); };
  const auto are_finite = [&](const auto& all) { return std::ranges::all_of(all, is_finite); };
  if (are_finite(sums.moments) && are_finite(sums.cross) && are_finite(sums.apart)) return "";
  return sums.of_numbers
             ? "is so large on the samples that products of two numbers, or their sums, are beyond "
               "float32's range of 3.4e38"
             : "holds inf or NaN on the samples";
}

StationMoments::StationMoments(const graph::Graph& graph, const Station& station, bool with_cross, bool even)
    : graph_(graph), with_cross_(with_cross), even_(even) {
  for (const SampledLayer& layer : station.layers) {
    const auto found =
        std::ranges::find_if(all_, [&](const Inputs& one) { return one.like.takes_like(layer, graph); });
    if (found != all_.end()) {
      ++found->layers;
      continue;
    }
    const auto size = static_cast<Index>(layer.columns);
    const std::vector<MatrixXd> none(layer.groups, MatrixXd::Zero(size, size));
    all_.push_back({.like = layer,
                    .sums = {.moments = none,
                             .cross = with_cross ? none : std::vector<MatrixXd>(),
                             .apart = with_cross ? none : std::vector<MatrixXd>(),
                             .of_numbers = true}});
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
                    std::vector<float> factors, mine;
                    one.sums.of_numbers = one.sums.of_numbers && are_finite(x.values);
                    if (even_) mine = times(x, factors = evening_factors(x));
                    const SampleColumns own{even_ ? std::span<const float>(mine) : x.values, x.samples};
                    add_moments(one.sums.moments[group], own, threads);
                    if (!with_cross_) return;
                    Kept& other = others.at(next++);
                    one.sums.of_numbers = one.sums.of_numbers && are_finite(other.values);
                    if (even_) other.values = times({other.values, other.samples}, factors);
                    add_cross_moments(one.sums.cross[group], {other.values, other.samples}, own, threads);
                    std::ranges::transform(other.values, own.values, other.values.begin(), std::minus());
                    add_moments(one.sums.apart[group], {other.values, other.samples}, threads);
                  });
  }
}

std::size_t StationMoments::place_of(const SampledLayer& layer) const {
  const auto found =
      std::ranges::find_if(all_, [&](const Inputs& one) { return one.like.takes_like(layer, graph_); });
  if (found == all_.end()) throw Error("no layer of this station takes value '" + layer.input + "'");
  return static_cast<std::size_t>(found - all_.begin());
}

const LayerMoments& StationMoments::of(const SampledLayer& layer) const { return all_[place_of(layer)].sums; }

LayerMoments StationMoments::take(const SampledLayer& layer) {
  Inputs& inputs = all_[place_of(layer)];
  if (--inputs.layers > 0) return inputs.sums;
  return std::move(inputs.sums);
}

}  // namespace crumb::ptq
