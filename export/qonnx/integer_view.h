// Quantizers whose outputs are the integers themselves, for people who write hardware.
#pragma once

#include "graph/graph.h"

namespace crumb::exporting {

/// Every Quant and BipolarQuant becomes Div by its scale, a quantizer of scale 1, and Mul by the scale; of a
/// constant the Div is done here, so that the initializer holds the integers (less the zero point). The same
/// numbers, bit for bit. Throws Error that names the nodes where that cannot be (FloatQuant, Trunc, scales
/// that are no constants).
graph::Graph integer_view(graph::Graph graph);

}  // namespace crumb::exporting
