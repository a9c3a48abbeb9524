// Loop and Scan as copies of their bodies. Internal to graph/control.
#pragma once

#include <cstddef>

#include "graph/facts/constant_values.h"
#include "graph/graph.h"

namespace crumb::graph {

/// The most nodes that a graph has after unrolling. A loop that would take more stays a node.
inline constexpr std::size_t kMostUnrolled = std::size_t{1} << 16;

/// Replaces node `index`, a loop, by copies of its body where `constants` say how often it runs. Inner names
/// get the loop's name and the trip's number in front; constants of the body, and so its weights, are shared
/// by all trips. Returns false, and leaves the graph as it is, where the number of trips is not known, where
/// a condition that each trip computes holds for more than 256, and where the copies would take more than
/// kMostUnrolled nodes. The graph is not sorted afterwards. Throws Error as loop_parts() does.
bool unroll(Graph& graph, std::size_t index, const ConstantValues& constants);

}  // namespace crumb::graph
