#include "graph/choose.h"

#include <algorithm>
#include <map>

namespace crumb::graph {

bool is_choose(const Node& node) {
  return node.is(kChoose, kControlDomain) && !node.outputs.empty() &&
         node.inputs.size() == 1 + 2 * node.outputs.size() &&
         std::ranges::none_of(node.inputs, &std::string::empty);
}

bool has_choose(const Graph& graph) { return std::ranges::any_of(graph.nodes, is_choose); }

std::size_t Sides::depth_of(std::size_t side) const {
  std::size_t depth = 0;
  for (; side != kOutside; side = sides_[side].around) ++depth;
  return depth;
}

/// The innermost side on which both lie.
std::size_t Sides::common(std::size_t a, std::size_t b) const {
  if (a == kNowhere || a == b) return b;
  if (b == kNowhere) return a;
  std::size_t of_a = depth_of(a), of_b = depth_of(b);
  for (; of_a > of_b; --of_a) a = sides_[a].around;
  for (; of_b > of_a; --of_b) b = sides_[b].around;
  while (a != b) {
    a = sides_[a].around;
    b = sides_[b].around;
  }
  return a;
}

Sides::Sides(const Graph& graph, const std::vector<std::string>& outputs)
    : of_(graph.nodes.size(), kNowhere) {
  std::map<std::string_view, std::size_t> wanted;  // the side on which each value is
  for (const std::string& output : outputs) wanted.emplace(output, kOutside);
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    std::size_t& own = of_[i];
    for (const std::string& output : node.outputs) {
      const auto found = wanted.find(output);
      if (!output.empty() && found != wanted.end()) own = common(own, found->second);
    }
    if (own == kNowhere) continue;
    const bool chooses = is_choose(node);
    const std::size_t first = sides_.size();  // where the condition is true, and behind it the other
    if (chooses) {
      for (const bool is_then : {true, false})
        sides_.push_back({.around = own, .choose = i, .is_then = is_then});
    }
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      if (node.inputs[k].empty()) continue;
      const std::size_t use = !chooses || k == 0 ? own : first + (is_then(node, k) ? 0 : 1);
      const auto [at, is_new] = wanted.emplace(node.inputs[k], use);
      if (!is_new) at->second = common(at->second, use);
    }
  }
}

}  // namespace crumb::graph
