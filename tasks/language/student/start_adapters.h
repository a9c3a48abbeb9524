// Adapters that a network has beside its matrices when training of those begins: left as they are, or learning along.
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
  /// Of `start`, all of them alike. Throws usage Error where they are to learn and it has none.
  StartAdapters(const graph::Graph& start, bool learn);

  /// The start with its codes in floats (`folded`): matrices of adapters are parameters in float32 where they learn, else buffers.
  graph::Graph trainable(graph::Graph folded) const;

  /// What was trainable(), with adapters kept as the start has them: what has learned is rounded to that, else it is the same.
  graph::Graph kept(graph::Graph trained) const;

 private:
  bool learn_;
  std::vector<std::pair<std::string, graph::AdapterType>> types_;  ///< by name, the innermost first
  std::map<std::string, graph::QuantizedConstant> codes_;          ///< their matrices that are codes
  std::optional<std::string> buffers_;                             ///< the start's own
};

}  // namespace crumb::tasks
