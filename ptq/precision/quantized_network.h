// The network as it will be, for stages behind rounding.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ptq/samples/sampled_layers.h"
#include "ptq/stages.h"

namespace crumb::ptq {

/// The setting's network as it will be: constants have their codes, and where it is asked for, each value that will be quantized is what
/// its quantizer makes of it, under its own name; those who will take it as it was find that under another.
struct QuantizedNetwork {
  graph::Graph graph;
  std::vector<std::size_t> places;  ///< of the setting's nodes

  std::vector<SampledLayer> placed(std::vector<SampledLayer> layers) const;
};

/// Codes that are not chosen yet are those of rounding, also in the plan. Where a range is to be found, samples run through the float
/// network once, and the plan has it from there on: what stages count on is what the network gets. Throws what graph::calibrate does.
QuantizedNetwork quantized_network(Setting& setting, bool quantizes_values);

}  // namespace crumb::ptq
