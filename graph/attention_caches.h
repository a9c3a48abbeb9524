// Finds the keys and values that attention caches from run to run, and the nodes that attend over them.
//
// An Attention node with a past and a present keeps a cache: the keys and values of its past, followed by
// those of this run. Other nodes may attend over the same positions without a cache of their own: no node
// reads their present, which they may name all the same (onnxruntime requires a present with a past). They
// take either the keeper's inputs (the same key, value and past: `beside`), or its outputs (its present as
// their keys and values, without a past: `behind`).
#pragma once

#include <cstddef>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

/// The indices of an Attention node's inputs and outputs.
struct AttentionInput {
  static constexpr std::size_t kQuery = 0, kKey = 1, kValue = 2, kPastKey = 4, kPastValue = 5;
};
struct AttentionOutput {
  static constexpr std::size_t kAttended = 0, kPresentKey = 1, kPresentValue = 2;
};

/// Nodes by their index in the graph, ascending.
struct AttentionCache {
  std::size_t keeper = 0;
  std::vector<std::size_t> beside, behind;
};

/// Returns the caches in the order of their keepers. Among nodes that take the same inputs and whose present
/// no node reads, the first is the keeper.
std::vector<AttentionCache> attention_caches(const Graph& graph, const Links& links);

}  // namespace crumb::graph
