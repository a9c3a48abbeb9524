// Nodes that work element by element, gathered: a region is computed in one pass over its values, a block at
// a time, so that what lies between its nodes stays in the first cache and takes no memory.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/graph.h"
#include "runtime/fuse/program.h"

namespace crumb::runtime {

/// Regions of two nodes and more, each as indices of nodes, ascending. What a node of a region makes is taken
/// inside of it alone, but for the last one's. `runs`: for each node whether it is there at all.
std::vector<std::vector<std::size_t>> regions_of(const graph::Graph& graph, const std::vector<bool>& runs);

}  // namespace crumb::runtime
