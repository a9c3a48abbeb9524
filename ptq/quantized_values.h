// What quantizers make of values between layers, before there are any in the graph.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ptq/sampled_layers.h"
#include "ptq/stages.h"

namespace crumb::ptq {

/// The setting's network in which each value that will be quantized is what its quantizer makes of it, under its own name; those who
/// will take it as it was find that under another.
struct QuantizedNetwork {
  graph::Graph graph;
  std::vector<std::size_t> places;  ///< of the setting's nodes

  std::vector<SampledLayer> placed(std::vector<SampledLayer> layers) const;
};

/// Where a range is to be found, samples run through the setting's network once, and the plan has it from there on: what stages count on
/// is what the network gets. Throws what graph::calibrate does.
QuantizedNetwork quantized_network(Setting& setting);

}  // namespace crumb::ptq
