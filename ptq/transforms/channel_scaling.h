// Where a factor for each channel can pass through a network without changing it: what produces a value's
// channels (rows of weights, biases, a norm's gains) is multiplied by the factors, and the weights that take
// it are divided by them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::ptq {

struct ScaledConstant {
  std::string name;
  std::size_t axis = 0;  ///< with the channels
};

/// Reaches from what produces the channels to all consumers, through operators that scale with their input
/// alone (trait::kScalesElements, kScalesChannels), constant factors, products with other activations, and
/// biases (which are scaled, too).
struct ScalingSite {
  std::size_t channels = 0;
  std::vector<ScaledConstant> sources;  ///< the first is the weight, or a norm's gain
  bool is_norm = false;
  std::vector<ScaledConstant> sinks;  ///< weights that take the channels
  std::vector<std::string> taken;     ///< values that these take, each once
};

/// Returns the sites along the graph. A site's constants have no other uses, but a weight can be one site's
/// sink and another's source.
std::vector<ScalingSite> scaling_sites(const graph::Graph& graph);

/// Multiplies sources by the factors and divides sinks by them; rounds each number once. Precondition: one
/// positive, finite factor for each channel.
void scale_site(graph::Graph& graph, const ScalingSite& site, std::span<const double> factors);

/// Returns the tensor with each channel multiplied by its factor, or with `divides` divided by it; rounds
/// each number once.
graph::Tensor scaled_channels(const graph::Tensor& tensor, std::size_t axis, std::span<const double> factors,
                              bool divides = false);

/// Returns the largest magnitude of each channel; NaN if its last element is NaN.
std::vector<double> channel_magnitudes(const graph::Tensor& tensor, std::size_t axis);
/// Returns the mean magnitude of each channel.
std::vector<double> channel_means(const graph::Tensor& tensor, std::size_t axis);

}  // namespace crumb::ptq
