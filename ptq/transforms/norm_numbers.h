// The numbers of a batch norm, which makes factor x + shift of channel x.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/graph.h"
#include "ptq/samples/channel_sums.h"

namespace crumb::ptq {

struct NormNumbers {
  /// Precondition: its inputs behind the first are constants.
  NormNumbers(const graph::Graph& graph, const graph::Node& node);

  double deviation(std::size_t channel) const;
  double factor(std::size_t channel) const;
  double shift(std::size_t channel) const;

  /// Another mean and variance, by which it makes of x what it made of gain x + shift.
  void take(std::size_t channel, const ChannelFit& fit);

  /// By which mean and variance become those of what comes in; those of a constant channel stay.
  std::vector<ChannelFit> own_fits(const ChannelSums& sums) const;

  std::vector<float> gains, biases, means, variances;
  double epsilon;
};

}  // namespace crumb::ptq
