// Where a factor for each channel can go through a network without changing it: what makes a value's channels (rows of weights,
// biases, gains of a norm) is multiplied by the factors, and the weights that take it are divided by them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::ptq {

struct ScaledConstant {
  std::string name;
  std::size_t axis = 0;  ///< of the channels
};

/// From what makes the channels to all that takes them, through what scales with its input alone (trait::kScalesElements, kScalesChannels),
/// constant factors, products with other activations, biases (which are scaled along).
struct ScalingSite {
  std::size_t channels = 0;
  std::vector<ScaledConstant> sources;  ///< the first is the weight, or the gain of a norm
  bool is_norm = false;
  std::vector<ScaledConstant> sinks;  ///< weights
  std::vector<std::string> taken;     ///< values that these take, each once
};

/// Along the graph. No constant of a site is in use elsewhere, but a weight can be one site's sink and another's source.
std::vector<ScalingSite> scaling_sites(const graph::Graph& graph);

/// Sources times the factors, sinks over them; each number is rounded once. Precondition: positive and finite, one a channel.
void scale_site(graph::Graph& graph, const ScalingSite& site, std::span<const double> factors);

/// Each number of a channel times its factor, rounded once; where `divides`, over it.
graph::Tensor scaled_channels(const graph::Tensor& tensor, std::size_t axis, std::span<const double> factors,
                              bool divides = false);

/// The largest magnitude of each channel; NaN where it holds one last.
std::vector<double> channel_magnitudes(const graph::Tensor& tensor, std::size_t axis);
/// Their mean magnitudes.
std::vector<double> channel_means(const graph::Tensor& tensor, std::size_t axis);

}  // namespace crumb::ptq
