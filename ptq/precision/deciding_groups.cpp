#include "ptq/precision/deciding_groups.h"

#include <algorithm>

namespace crumb::ptq {

DecidingGroups::DecidingGroups(const FormatSpace& space, const graph::QuantPlan& plan)
    : graph_(space.graph()), plan_(plan), links_(space.graph()) {
  for (std::size_t g = 0; g < space.groups().size(); ++g) {
    const FormatSpace::Group& group = space.groups()[g];
    if (group.is_free)
      for (const std::string& source : group.layers.sources) groups_[source] = g;
    for (const FormatSpace::Unit& unit : group.units)
      for (const graph::WeightedNode& node : unit.unit.nodes) layers_.insert(node.node);
  }
}

std::optional<std::size_t> DecidingGroups::only_one(const std::string& made) const {
  const std::size_t node = links_.producer(made);
  if (node == graph::Links::kNone) return {};
  std::set<std::size_t> found, seen;
  gather(node, found, seen);
  if (found.size() != 1 || *found.begin() == kWeights) return {};
  return *found.begin();
}

void DecidingGroups::gather(std::size_t node, std::set<std::size_t>& found,
                            std::set<std::size_t>& seen) const {
  if (!seen.insert(node).second) return;
  for (const std::string& value : graph_.nodes[node].inputs) {
    const bool has_quantizer = std::ranges::any_of(plan_.edges, [&](const graph::PlannedEdge& edge) {
      return edge.value == value && edge.is_taken_by(graph_.nodes[node]);
    });
    if (has_quantizer) {
      if (const auto group = groups_.find(value); group != groups_.end()) found.insert(group->second);
      continue;
    }
    const std::size_t producer = links_.producer(value);
    if (producer == graph::Links::kNone) continue;
    if (layers_.contains(producer)) found.insert(kWeights);
    gather(producer, found, seen);
  }
}

}  // namespace crumb::ptq
