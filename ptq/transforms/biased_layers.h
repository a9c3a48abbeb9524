// Layers with a bias for each output, by which their outputs can be shifted.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ptq/samples/sampled_layers.h"
#include "ptq/stages.h"

namespace crumb::ptq {

struct BiasedLayer {
  SampledLayer layer;
  std::string bias;    ///< the constant, without other consumers: one number for each of the layer's outputs
  std::string output;  ///< the value after the bias is added
};

struct BiasedLayers {
  std::vector<BiasedLayer>
      layers;               ///< that become codes, whether they have them yet or not; in the graph's order
  std::size_t without = 0;  ///< number of layers without their own bias
};

BiasedLayers biased_layers(const Setting& setting);

}  // namespace crumb::ptq
