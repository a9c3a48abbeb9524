// Samples that show whether a network computes the same elsewhere.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analysis/accumulator/layers.h"
#include "graph/graph.h"

namespace crumb::exporting {

/// What an input of a network can be: multiples of a step between two of them, or anything, which its first
/// quantizer takes to those.
struct InputSpan {
  double low = 0, high = 0, step = 1;
  bool is_quantized_first = false;
};

/// For each input of the graph, as many samples along axis 0 of float32: evenly drawn over its span (and
/// beyond both ends, where it is quantized first), the least and the greatest everywhere, those two drawn at
/// random; where there is one input, those that take the sums of the layers on it as far as they go. The same
/// each time. Throws Error for an input whose shape or span is not known.
std::vector<graph::Tensor> sample_inputs(const graph::Graph& graph,
                                         const std::map<std::string, InputSpan>& spans,
                                         const analysis::GivenRanges& given = {});

/// Samples of float32 behind others. Throws Error where their shapes differ beyond axis 0.
graph::Tensor followed_by(const graph::Tensor& first, const graph::Tensor& second);

}  // namespace crumb::exporting
