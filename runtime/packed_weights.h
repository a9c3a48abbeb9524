// Which constants of a network stay packed while it runs, and which become floats when it is loaded.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace crumb::runtime {

struct PackedWeights {
  std::vector<std::string> packed;
  /// The constants that become floats, each with the first node that takes its values.
  std::vector<std::pair<std::string, std::string>> decoded;
};

/// By name, for Graph::quantized of a graph as it runs (lower/lower.h).
PackedWeights packed_weights(const graph::Graph& graph);

}  // namespace crumb::runtime
