// Where a network's values can get another mean and variance, channel by channel, without another node.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "ptq/samples/sampled_layers.h"
#include "ptq/stages.h"
#include "ptq/transforms/biased_layers.h"

namespace crumb::ptq {

struct StatisticsPlace {
  SampledLayer at;  ///< the node, and what it takes; of a norm nothing else
  std::optional<BiasedLayer>
      layer;         ///< whose scales and bias change; else it is a norm, whose mean and variance do
  std::string name;  ///< the layer's weight, the norm's gain
};

struct StatisticsPlaces {
  std::vector<StatisticsPlace> all;  ///< as the graph has them
  std::size_t norms = 0;             ///< of them
  std::vector<std::string> notes;    ///< what is none, and why
};

/// Every BatchNormalization of constant numbers whose mean and variance are its own; and the layers that become codes, with a bias of
/// their own, but those that bring their outputs to such norms alone.
StatisticsPlaces statistics_places(const Setting& setting);

}  // namespace crumb::ptq
