// Flattened data in either order of its elements, and the weights that multiply it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

/// Data [batch, channels, positions] that is flattened to [batch, channels * positions].
struct FlatOrder {
  std::int64_t channels = 1, positions = 1;
  bool is_plain() const { return channels == 1 || positions == 1; }  ///< the same in both layouts
};

/// Returns what a Flatten or Reshape flattens; nothing where it does something else, or sizes are unknown.
std::optional<FlatOrder> flattened_order(const Graph& graph, const Node& node);

/// Values whose second axis runs over positions first and channels second, instead of the other way round.
class FlattenedRows {
 public:
  /// Gives the value that order, if all its consumers accept it: nodes that do not depend on the order, and
  /// MatMul and Gemm with constant weights (quantized or not). Returns false if one does not.
  bool begin(const Graph& graph, const Links& links, const std::string& value, FlatOrder order);

  /// For a node that takes such a value: its output becomes such a value too, or its weights are reordered.
  /// `node` is the node before, `kept` the node to be written; `made` receives the quantizers of weights.
  void follow(Graph& graph, const Node& node, Node& kept, std::vector<Node>& made);

 private:
  std::map<std::string, FlatOrder> values_;
};

}  // namespace crumb::graph
