// The accumulator that each layer needs, in the words of the tools that build it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/graph/datatypes.h"
#include "models/graph/graph.h"

namespace crumb::exporting {

/// A layer whose inputs and weights are whole numbers times one scale each.
struct LayerAccumulator {
  std::string node, op;
  graph::DataType type;  ///< the least that holds every partial sum of these weights, whatever the inputs are
  /// Where the product of both scales is a power of two, its exponent: sums are integers times 2^exponent.
  std::optional<int> scale_exponent;
};

/// From the graph as it stands; shapes are static.
std::vector<LayerAccumulator> accumulators_of(const graph::Graph& graph);

/// JSON, by the names of the layers' nodes:
///   "hls4ml": {"LayerName": {"Conv_0": {"Precision": {"accum": "ap_fixed<14,6>"}}}}   to merge into its configuration;
///             ap_int<bits> where the scales are no powers of two, as the layer then computes on integers
///   "finn":   {"Conv_0": {"accDataType": "INT14"}}                                    attributes of the layer's MVAU
std::string accumulator_config(const std::vector<LayerAccumulator>& layers);

}  // namespace crumb::exporting
