// A part of a network as a network of its own, and a network cut into parts that run one behind the other.
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

/// One of the parts that a network is cut into.
struct CutPart {
  Graph graph;  ///< its first output is the part's end, the others are what later parts read of it
  std::vector<std::string>
      last_read;  ///< of its inputs, those that an earlier part makes and no later one reads
};

/// Cuts a network behind each of the values `ends`, of which none is made before the one in front of it.
/// Parts read the network's inputs and whatever earlier parts make. A node is in the first part that needs
/// it; only what follows from inputs and from constants that are no weights (graph/buffers.h), as masks and
/// rotary tables do, is in each part that needs it. What no end follows from is in none. Throws Error, which
/// names the value, where no node makes an end or an earlier part does. Precondition: the graph is sorted.
std::vector<CutPart> cut_behind(const Graph& graph, const std::vector<std::string>& ends);

}  // namespace crumb::graph
