// Duplicates channels of a site (split_sites.h): rows that produce them are copied, columns that take them
// share the weight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "ptq/matrices/weight_rows.h"
#include "ptq/transforms/split_sites.h"
#include "quant/quant_spec.h"

namespace crumb::ptq {

/// For each new channel, the old one that it copies. Parts stay together: in each, the old channels in their
/// order, then the copies.
class ChannelSplit {
 public:
  /// Preconditions: ascending, each below `channels` and once, as many in each part; `parts` divides
  /// `channels`.
  ChannelSplit(std::size_t channels, std::size_t parts, const std::vector<std::size_t>& doubled);

  std::size_t before() const { return channels_; }
  std::size_t after() const { return from_.size(); }
  std::size_t from(std::size_t channel) const { return from_[channel]; }
  const std::vector<std::size_t>& all() const { return from_; }

  /// The two new channels of an old one that is duplicated.
  struct Pair {
    std::size_t first, second;
  };
  const std::vector<Pair>& pairs() const { return pairs_; }

 private:
  std::size_t channels_;
  std::vector<std::size_t> from_;
  std::vector<Pair> pairs_;
};

/// Returns a sink's weight for the new channels; each copy is half of the old one: exact.
WeightRows with_halves(const WeightRows& rows, const ChannelSink& sink, const ChannelSplit& split);

/// Changes the halves so that their codes add up to those of one number on the same grid: the copy with the
/// larger steps becomes the code's value nearest to w / 2, the other the rest of w. On a grid of equal steps
/// the sum of both codes is then the nearest whole number of steps, as with the paper's halves, which are
/// half a step apart: floor(x / 2) + floor((x + 1) / 2) = floor(x). Equal halves have the same error twice.
/// The range of the weights of a scale does not grow. Sums are w up to the rounding of one number.
void part_halves(const QuantSpec& spec, WeightRows& rows, const ChannelSink& sink, const ChannelSplit& split,
                 int threads);

/// Returns the sum of copies' columns: the weights of the old channels. Precondition: the rows have the shape
/// of with_halves().
std::vector<double> joined_columns(const WeightRows& rows, const ChannelSink& sink,
                                   const ChannelSplit& split);

/// Returns the shape of a sink's rows for a site with `after` channels instead of `before`.
std::vector<std::uint64_t> split_shape(const WeightRows& rows, const ChannelSink& sink, std::size_t before,
                                       std::size_t after);

/// Returns the tensor whose rows these are.
graph::Tensor tensor_of_rows(const WeightRows& rows);

/// Changes everything of the site but its sinks: rows, biases, groups, and known shapes of values.
void double_sources(graph::Graph& graph, const SplitSite& site, const ChannelSplit& split);

}  // namespace crumb::ptq
