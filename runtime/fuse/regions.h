// Groups elementwise nodes into regions: a region is computed in one pass over its values, a block at a time,
// so that values between its nodes stay in the first cache and take no memory.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/graph.h"
#include "runtime/fuse/program.h"

namespace crumb::runtime {

/// Regions of two and more nodes, each as ascending indices of nodes. Only nodes of a region take its values,
/// except for the last node's. `runs`: for each node whether it runs at all.
std::vector<std::vector<std::size_t>> regions_of(const graph::Graph& graph, const std::vector<bool>& runs);

}  // namespace crumb::runtime
