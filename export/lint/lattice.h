// On which powers of two the values of a graph lie.
#pragma once

#include <map>
#include <string>

#include "graph/graph.h"

namespace crumb::exporting {

/// By value: every element, whatever the inputs are, is a whole multiple of 2^exponent, as long as no sum
/// leaves float32's 24 bits; what an input's annotation says of it holds. Values of which that, quantizers
/// and constants do not decide it are not there. The graph is sorted.
std::map<std::string, int> lattice_of(const graph::Graph& graph);

}  // namespace crumb::exporting
