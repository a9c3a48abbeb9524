// Biases as hls4ml takes them.
#pragma once

#include "graph/graph.h"

namespace crumb::exporting::hls4ml {

/// Quantizers of constants that a Conv adds, or an Add, become quantizers of the same numbers with one power
/// of two for a scale and no more bits than these numbers need: hls4ml does not follow several scales into a
/// sum, and gives a bias all the bits that its quantizer has. What is no such numbers stays.
graph::Graph with_plain_biases(graph::Graph graph);

}  // namespace crumb::exporting::hls4ml
