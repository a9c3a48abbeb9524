// Which constants of a network stay packed while it runs, and which become floats when it is loaded.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace crumb::runtime {

struct PackedWeights {
  std::vector<std::string> packed;
  std::uint64_t packed_bytes = 0;  ///< of memory that they take
  /// The constants that become floats, each with the first node that takes its values.
  std::vector<std::pair<std::string, std::string>> decoded;
};

/// By name, for Graph::quantized and initializers with packed_rows(), of a graph as it runs
/// (lower/lower.h).
PackedWeights packed_weights(const graph::Graph& graph);

}  // namespace crumb::runtime
