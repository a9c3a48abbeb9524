// Channels of a site (split_sites.h) in two copies: rows that make them are copied, columns that take them share the weight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "ptq/matrices/weight_rows.h"
#include "ptq/transforms/split_sites.h"
#include "quant/quant_spec.h"

namespace crumb::ptq {

/// For each new channel the old one that it is. Those of a part stay together: the old ones in their order, then the copies.
class ChannelSplit {
 public:
  /// Precondition: ascending, each below channels and once, as many in each part; parts divide channels.
  ChannelSplit(std::size_t channels, std::size_t parts, const std::vector<std::size_t>& doubled);

  std::size_t before() const { return channels_; }
  std::size_t after() const { return from_.size(); }
  std::size_t from(std::size_t channel) const { return from_[channel]; }
  const std::vector<std::size_t>& all() const { return from_; }

  /// Of the two copies of an old channel that was doubled.
  struct Pair {
    std::size_t first, second;
  };
  const std::vector<Pair>& pairs() const { return pairs_; }

 private:
  std::size_t channels_;
  std::vector<std::size_t> from_;
  std::vector<Pair> pairs_;
};

/// The weight of a sink with the new channels, each copy half of what was: exact.
WeightRows with_halves(const WeightRows& rows, const ChannelSink& sink, const ChannelSplit& split);

/// Moves the halves apart so that together they round to what one number on the same grid would: the copy with the wider steps
/// becomes the code's value that is nearest to w / 2, the other the rest of w. On a grid of equal steps the sum of both codes is
/// the nearest whole number of steps then, as it is of the paper's halves, which are half a step apart: floor(x / 2) +
/// floor((x + 1) / 2) = floor(x). Halves that are equal are off by the same, twice. The range of a scale's weights does not
/// grow. Sums are w but for the rounding of one number.
void part_halves(const QuantSpec& spec, WeightRows& rows, const ChannelSink& sink, const ChannelSplit& split,
                 int threads);

/// Columns added up again: what the weights do to the old channels. Of rows that with_halves() gave the shape.
std::vector<double> joined_columns(const WeightRows& rows, const ChannelSink& sink,
                                   const ChannelSplit& split);

/// The shape that a sink's rows get where the site has `after` channels instead of `before`.
std::vector<std::uint64_t> split_shape(const WeightRows& rows, const ChannelSink& sink, std::size_t before,
                                       std::size_t after);

/// The tensor whose rows they are.
graph::Tensor tensor_of_rows(const WeightRows& rows);

/// Everything of the site but its sinks: rows, biases, groups, and what is known of values' shapes.
void double_sources(graph::Graph& graph, const SplitSite& site, const ChannelSplit& split);

}  // namespace crumb::ptq
