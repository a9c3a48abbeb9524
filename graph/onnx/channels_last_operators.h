// QONNX's operators whose channels are the last axis (domain kChannelsLastDomain: Conv, MaxPool,
// BatchNormalization; MaxPoolNHWC), as ONNX's between two Transposes. A convolution's weight [M, k..., C /
// groups] gets one as well.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace crumb::graph {

/// Replaces the nodes of these operators for which `is_wanted` is true. Nodes whose first input has an
/// unknown rank stay as they are.
Graph channels_first_operators(Graph graph, const std::function<bool(const Node&)>& is_wanted);

}  // namespace crumb::graph
