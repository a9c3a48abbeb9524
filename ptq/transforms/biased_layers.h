// Layers whose outputs can be moved: each output has a bias.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ptq/samples/sampled_layers.h"
#include "ptq/stages.h"

namespace crumb::ptq {

struct BiasedLayer {
  SampledLayer layer;
  std::string bias;    ///< the constant, which nobody else takes: a number for each of the layer's outputs
  std::string output;  ///< the value, bias added
};

struct BiasedLayers {
  std::vector<BiasedLayer>
      layers;               ///< that become codes, whether they have them or not; as the graph has them
  std::size_t without = 0;  ///< those that have no bias of their own
};

BiasedLayers biased_layers(const Setting& setting);

}  // namespace crumb::ptq
