// Samples that show whether a network computes the same elsewhere.
#pragma once

#include <vector>

#include "export/hls4ml/layer_types.h"

namespace crumb::exporting::hls4ml {

/// For each input of the graph, as many samples along axis 0 of float32: evenly drawn over what its first quantizer keeps
/// apart (and beyond both ends), the least and the greatest everywhere, those two drawn at random; where there is one
/// input, those that take the sums of the layers on it as far as they go. The same each time.
std::vector<graph::Tensor> sample_inputs(const graph::Graph& graph, const NetworkTypes& types,
                                         const graph::GivenRanges& given = {});

/// Samples of float32 behind others. Throws Error where their shapes differ beyond axis 0.
graph::Tensor followed_by(const graph::Tensor& first, const graph::Tensor& second);

}  // namespace crumb::exporting::hls4ml
