#include "ptq/samples/layer_moments.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "quant/loops/loops.h"

namespace crumb::ptq {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using graph::Tensor;

/// Returns the factor for each sample of a part.
std::vector<float> evening_factors(BroughtSamples& brought, std::size_t part, std::size_t group,
                                   std::size_t block, std::vector<float>& columns) {
  std::vector<double> squares(brought.samples());
  for (std::size_t begin = 0; begin < squares.size(); begin += block) {
    const SampleColumns x =
        brought.read(part, group, begin, std::min(block, squares.size() - begin), columns);
    for (std::size_t i = 0; i < x.size(); ++i)
      for (std::size_t t = 0; t < x.samples; ++t) {
        const auto value = static_cast<double>(x.values[i * x.samples + t]);
        squares[begin + t] += value * value;
      }
  }
  std::vector<float> factors(squares.size(), 1.0F);
  std::vector<double> sorted;
  std::ranges::copy_if(squares, std::back_inserter(sorted), [](double square) { return square > 0; });
  if (sorted.empty()) return factors;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  for (std::size_t t = 0; t < squares.size(); ++t)
    if (squares[t] > *middle) factors[t] = static_cast<float>(std::sqrt(*middle / squares[t]));
  return factors;
}

/// Multiplies each sample by its factor.
void multiply_samples(std::vector<float>& columns, std::span<const float> factors) {
  for (std::size_t i = 0; i < columns.size(); ++i) columns[i] *= factors[i % factors.size()];
}

bool are_finite(std::span<const float> values) {
  return loops().absmax_bits(values.data(), values.size()) < kInfinityBits;
}

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
    BroughtSamples mine(node, graph_, one.like, brought.at(one.like.input));
    std::optional<BroughtSamples> others;
    if (with_cross_) others.emplace(node, graph_, one.like, floats.at(one.like.input));
    for (std::size_t part = 0; part < mine.parts(); ++part)
      for (std::size_t group = 0; group < one.like.groups; ++group)
        add(one, mine, others ? &*others : nullptr, part, group, threads);
  }
}

void StationMoments::add(Inputs& one, BroughtSamples& mine, BroughtSamples* others, std::size_t part,
                         std::size_t group, int threads) {
  if (group == 0) one.sums.samples += mine.samples();
  const std::size_t all = mine.samples(), block = BroughtSamples::block_of(one.like.columns);
  std::vector<float> x, y, factors;
  if (even_) factors = evening_factors(mine, part, group, block, x);
  for (std::size_t begin = 0; begin < all; begin += block) {
    const std::size_t count = std::min(block, all - begin);
    const auto read = [&](BroughtSamples& from, std::vector<float>& columns) -> SampleColumns {
      from.read(part, group, begin, count, columns, threads);
      one.sums.of_numbers = one.sums.of_numbers && are_finite(columns);
      if (even_) multiply_samples(columns, std::span(factors).subspan(begin, count));
      return {columns, count};
    };
    const SampleColumns own = read(mine, x);
    add_moments(one.sums.moments[group], own, threads);
    if (!others) continue;
    const SampleColumns other = read(*others, y);
    add_cross_moments(one.sums.cross[group], other, own, threads);
    std::ranges::transform(y, x, y.begin(), std::minus());
    add_moments(one.sums.apart[group], other, threads);
  }
}

std::size_t StationMoments::index_of(const SampledLayer& layer) const {
  const auto found =
      std::ranges::find_if(all_, [&](const Inputs& one) { return one.like.takes_like(layer, graph_); });
  if (found == all_.end()) throw Error("no layer of this station takes value '" + layer.input + "'");
  return static_cast<std::size_t>(found - all_.begin());
}

const LayerMoments& StationMoments::of(const SampledLayer& layer) const { return all_[index_of(layer)].sums; }

LayerMoments StationMoments::take(const SampledLayer& layer) {
  Inputs& inputs = all_[index_of(layer)];
  if (--inputs.layers > 0) return inputs.sums;
  return std::move(inputs.sums);
}

}  // namespace crumb::ptq
