#include "ptq/transforms/norm_numbers.h"

#include <algorithm>
#include <cmath>

#include "ptq/transforms/channel_fits.h"

namespace crumb::ptq {

NormNumbers::NormNumbers(const graph::Graph& graph, const graph::Node& node)
    : gains(graph.constant(node.inputs[1])->to_floats()),
      biases(graph.constant(node.inputs[2])->to_floats()),
      means(graph.constant(node.inputs[3])->to_floats()),
      variances(graph.constant(node.inputs[4])->to_floats()),
      epsilon(static_cast<double>(node.float_or("epsilon", 1e-5F))) {}

double NormNumbers::deviation(std::size_t channel) const {
  return std::sqrt(static_cast<double>(variances[channel]) + epsilon);
}

double NormNumbers::factor(std::size_t channel) const {
  return static_cast<double>(gains[channel]) / deviation(channel);
}

double NormNumbers::shift(std::size_t channel) const {
  return static_cast<double>(biases[channel]) - factor(channel) * static_cast<double>(means[channel]);
}

void NormNumbers::take(std::size_t channel, const ChannelFit& fit) {
  const double variance = std::pow(deviation(channel) / fit.gain, 2) - epsilon;
  means[channel] = static_cast<float>((static_cast<double>(means[channel]) - fit.shift) / fit.gain);
  variances[channel] = static_cast<float>(std::max(0.0, variance));
}

std::vector<ChannelFit> NormNumbers::own_fits(const ChannelSums& sums) const {
  const double least = least_deviation(sums);
  std::vector<ChannelFit> fits(sums.channels());
  for (std::size_t c = 0; c < fits.size(); ++c) {
    const double variance = sums.variance_made(c);
    if (!(std::sqrt(variance) > least)) continue;
    fits[c].gain = deviation(c) / std::sqrt(variance + epsilon);
    fits[c].shift = static_cast<double>(means[c]) - fits[c].gain * sums.mean_made(c);
  }
  return fits;
}

}  // namespace crumb::ptq
