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
  SampledLayer at;  ///< the node and its input; of a norm nothing else
  std::optional<BiasedLayer>
      layer;         ///< its scales and bias change; nothing: a norm, whose mean and variance change
  std::string name;  ///< of the layer's weight, or the norm's gain
};

struct StatisticsPlaces {
  std::vector<StatisticsPlace> all;  ///< in the graph's order
  std::size_t norms = 0;             ///< how many of them are norms
  std::vector<std::string> notes;    ///< about values that cannot be corrected, and why
};

/// Returns every BatchNormalization with constant numbers whose mean and variance have no other uses; and the
/// layers that become codes and have their own bias, except those whose outputs only such norms take.
StatisticsPlaces statistics_places(const Setting& setting);

}  // namespace crumb::ptq
