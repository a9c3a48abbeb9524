// Finds the group whose activation formats decide a node's input types: of a nearby layer, say, if the node's
// own weights stay float.
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
  /// `plan`: any plan of the space.
  DecidingGroups(const FormatSpace& space, const graph::QuantPlan& plan);

  /// Returns the group, if one alone decides the types of the node that produces `made`; nothing if none or
  /// several do, or if weights do, whose formats determine a type behind a layer.
  std::optional<std::size_t> only_one(const std::string& made) const;

 private:
  static constexpr std::size_t kWeights = ~std::size_t{0};

  void gather(std::size_t node, std::set<std::size_t>& found, std::set<std::size_t>& seen) const;

  const graph::Graph& graph_;
  const graph::QuantPlan& plan_;
  const graph::Links links_;
  std::map<std::string, std::size_t> groups_;  ///< by source; of groups with free activations
  std::set<std::size_t> layers_;               ///< nodes whose weights' formats are chosen
};

}  // namespace crumb::ptq
