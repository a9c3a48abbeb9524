// Weights as the values that their quantizers make.
#pragma once

#include "graph/graph.h"

namespace crumb::exporting {

/// Every quantizer of a constant gets (code - zero point) * scale for its data, and rounds to nearest:
/// whatever its rounding mode was (floor, a learned one), the codes stay, and every reader finds them. A
/// constant that others use, too, stays as it is for them. Where rounding again would change a value, floats
/// that are rounded to nearest already stay; any other mode is an Error that names the node.
graph::Graph bake_weights(graph::Graph graph);

}  // namespace crumb::exporting
