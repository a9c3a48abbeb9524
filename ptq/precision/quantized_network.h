// Builds the quantized network, for stages after rounding.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ptq/samples/sampled_layers.h"
#include "ptq/stages.h"

namespace crumb::ptq {

/// The setting's network after quantizing: constants have their codes. If requested, each value that will be
/// quantized is its quantizer's output, under its own name; consumers that take it in floats take it under
/// another name.
struct QuantizedNetwork {
  graph::Graph graph;
  std::vector<std::size_t> places;  ///< index here of each of the setting's nodes

  std::vector<SampledLayer> placed(std::vector<SampledLayer> layers) const;
};

/// Constants without codes are rounded, also in the plan. Where a range is unknown, samples run through the
/// float network once, and the plan keeps the range: stages work with the ranges that the network gets.
/// Throws what graph::calibrate does.
QuantizedNetwork quantized_network(Setting& setting, bool quantizes_values);

}  // namespace crumb::ptq
