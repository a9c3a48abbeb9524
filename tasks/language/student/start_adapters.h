// Adapters that a network already has when its matrices begin to train: they stay as they are, or learn, too.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/adapters.h"
#include "graph/graph.h"

namespace crumb::tasks {

class StartAdapters {
 public:
  /// Takes all adapters of `start`. Throws usage Error where they shall learn and there are none.
  StartAdapters(const graph::Graph& start, bool learn);

  /// Returns the start with its codes in floats (`folded`); the adapters' matrices are parameters in float32
  /// where they learn, else buffers.
  graph::Graph trainable(graph::Graph folded) const;

  /// Returns what trainable() became, with adapters stored in the types of the start: rounded to these where
  /// they learned, else unchanged.
  graph::Graph kept(graph::Graph trained) const;

 private:
  bool learn_;
  std::vector<std::pair<std::string, graph::AdapterType>> types_;  ///< by name, the innermost adapter first
  std::map<std::string, graph::QuantizedConstant> codes_;          ///< the adapters' matrices that are codes
  std::optional<std::string> buffers_;                             ///< the start's own buffers
};

}  // namespace crumb::tasks
