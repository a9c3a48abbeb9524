// Which constants of a network the runtime keeps as codes while it runs, and which become floats when it is loaded.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace crumb::runtime {

struct PackedWeights {
  std::vector<std::string> packed;
  /// What becomes floats, and the first node that takes its values.
  std::vector<std::pair<std::string, std::string>> decoded;
};

/// Of a graph as it runs (lower/lower.h), by name: Graph::quantized.
PackedWeights packed_weights(const graph::Graph& graph);

}  // namespace crumb::runtime
