// Whose formats of activations decide what a node takes in: that of a layer beside them, say, which keeps its weights.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "ptq/precision/format_space.h"

namespace crumb::ptq {

class DecidingGroups {
 public:
  /// `plan`: any of the space's.
  DecidingGroups(const FormatSpace& space, const graph::QuantPlan& plan);

  /// The group, where one alone decides over the types of the node that makes the value; nothing where none or several do, or
  /// weights do, whose formats a type behind a layer follows from.
  std::optional<std::size_t> only_one(const std::string& made) const;

 private:
  static constexpr std::size_t kWeights = ~std::size_t{0};

  void gather(std::size_t node, std::set<std::size_t>& found, std::set<std::size_t>& seen) const;

  const graph::Graph& graph_;
  const graph::QuantPlan& plan_;
  const graph::Links links_;
  std::map<std::string, std::size_t> groups_;  ///< by source; of those whose activations are free
  std::set<std::size_t> layers_;               ///< nodes whose weights are chosen for
};

}  // namespace crumb::ptq
