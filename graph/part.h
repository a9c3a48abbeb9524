// A part of a network as a network of its own.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

/// What computes the values `wanted` of a graph when the values `given` are known: those of its inputs that are needed, in
/// their order, then what of `given` is. Names stay. Throws Error where a wanted value is in no node's output. Precondition: the
/// graph is sorted.
Graph part_of(const Graph& graph, const std::vector<std::string>& given,
              const std::vector<std::string>& wanted);

}  // namespace crumb::graph
