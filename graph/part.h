// A part of a network as a network of its own.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

/// Returns the part of a graph that computes the values `wanted` from the known values `given`. Its inputs
/// are the needed graph inputs, in their order, then the needed values of `given`. Names stay. Throws Error
/// where no node produces a wanted value. Precondition: the graph is sorted.
Graph part_of(const Graph& graph, const std::vector<std::string>& given,
              const std::vector<std::string>& wanted);

}  // namespace crumb::graph
