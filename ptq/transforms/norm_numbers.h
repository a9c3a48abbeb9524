// The numbers of a batch norm, which maps channel x to factor x + shift.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/graph.h"
#include "ptq/samples/channel_sums.h"

namespace crumb::ptq {

struct NormNumbers {
  /// Precondition: its inputs after the first are constants.
  NormNumbers(const graph::Graph& graph, const graph::Node& node);

  double deviation(std::size_t channel) const;
  double factor(std::size_t channel) const;
  double shift(std::size_t channel) const;

  /// Sets the mean and variance with which it maps x to what it gave for gain x + shift.
  void take(std::size_t channel, const ChannelFit& fit);

  /// Returns the fits that make its mean and variance those of its inputs; constant channels do not change.
  std::vector<ChannelFit> own_fits(const ChannelSums& sums) const;

  std::vector<float> gains, biases, means, variances;
  double epsilon;
};

}  // namespace crumb::ptq
