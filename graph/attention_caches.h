// Keys and values that attention keeps from run to run, and who attends over them.
//
// An Attention node with a past and a present keeps a cache: its keys and values of this run, behind those of
// its past. Other nodes may attend over the same positions, and keep nothing: nobody takes a present of
// theirs, which they may name all the same (onnxruntime wants a present beside a past). They take what the
// keeper takes (the same key, value and past: `beside`), or what it gives (its present as their keys and
// values, without a past: `behind`).
#pragma once

#include <cstddef>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

/// Where an Attention node has its inputs and outputs.
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

/// In the order of their keepers. Of nodes that take the same and whose present nobody takes, the first is
/// the keeper.
std::vector<AttentionCache> attention_caches(const Graph& graph, const Links& links);

}  // namespace crumb::graph
