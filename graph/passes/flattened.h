// Flattened data, in another order too, and the weights that take it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

/// Data of [batch, channels, places] that are flattened to [batch, channels * places].
struct FlatOrder {
  std::int64_t channels = 1, places = 1;
  bool is_plain() const { return channels == 1 || places == 1; }  ///< the same in both layouts
};

/// What a Flatten or Reshape flattens; nothing where it does something else, or sizes are not known.
std::optional<FlatOrder> flattened_order(const Graph& graph, const Node& node);

/// Values whose second axis runs over places first and channels second, instead of the other way round.
class FlattenedRows {
 public:
  /// The value gets that order, where everything that takes it can: by nodes that do not care for the order, MatMul
  /// and Gemm of constant weights (quantized or not). False where something cannot.
  bool begin(const Graph& graph, const Links& links, const std::string& value, FlatOrder order);

  /// A node that takes such a value: its output is such a value too, or its weights are put in the new order.
  /// `node` as it was, `kept` as it is to be; the quantizers of weights stand in `made`.
  void follow(Graph& graph, const Node& node, Node& kept, std::vector<Node>& made);

 private:
  std::map<std::string, FlatOrder> values_;
};

}  // namespace crumb::graph
