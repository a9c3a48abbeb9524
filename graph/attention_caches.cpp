#include "graph/attention_caches.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>

namespace crumb::graph {
namespace {

using In = AttentionInput;
using Out = AttentionOutput;

bool has_past(const Node& node) {
  return node.is("Attention") && node.has_input(In::kPastKey) && node.has_input(In::kPastValue);
}

bool has_present(const Node& node) {
  return node.has_output(Out::kPresentKey) && node.has_output(Out::kPresentValue);
}

class Caches {
 public:
  Caches(const Graph& graph, const Links& links) : graph_(graph), links_(links) {}

  std::vector<AttentionCache> run() {
    std::map<std::array<std::string, 4>, std::vector<std::size_t>> alike;  // by key, value and past
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (has_past(node) && node.has_input(In::kKey) && node.has_input(In::kValue))
        alike[{node.inputs[In::kKey], node.inputs[In::kValue], node.inputs[In::kPastKey],
               node.inputs[In::kPastValue]}]
            .push_back(i);
    }
    for (const auto& [taken, nodes] : alike) add(nodes);
    std::ranges::sort(caches_, {}, &AttentionCache::keeper);
    return std::move(caches_);
  }

 private:
  /// Nodes that take the same.
  void add(const std::vector<std::size_t>& nodes) {
    std::vector<std::size_t> keepers, others;
    for (const std::size_t node : nodes) (is_present_taken(node) ? keepers : others).push_back(node);
    if (keepers.empty()) {
      const auto first =
          std::ranges::find_if(others, [&](std::size_t i) { return has_present(graph_.nodes[i]); });
      if (first == others.end()) return;
      keepers.push_back(*first);
      others.erase(first);
    }
    for (const std::size_t keeper : keepers) {
      if (!has_present(graph_.nodes[keeper])) continue;
      caches_.push_back({.keeper = keeper, .beside = others, .behind = behind(keeper)});
      others.clear();
    }
  }

  bool is_present_taken(std::size_t index) const {
    const Node& node = graph_.nodes[index];
    return std::ranges::any_of(std::array{Out::kPresentKey, Out::kPresentValue}, [&](std::size_t output) {
      return node.has_output(output) &&
             (links_.is_output(node.outputs[output]) || !links_.consumers(node.outputs[output]).empty());
    });
  }

  std::vector<std::size_t> behind(std::size_t keeper) const {
    const Node& of = graph_.nodes[keeper];
    std::set<std::size_t> found;
    for (const std::size_t i : links_.consumers(of.outputs[Out::kPresentKey])) {
      const Node& node = graph_.nodes[i];
      const bool is_behind =
          node.is("Attention") && !node.has_input(In::kPastKey) && !node.has_input(In::kPastValue) &&
          node.has_input(In::kValue) && node.inputs[In::kKey] == of.outputs[Out::kPresentKey] &&
          node.inputs[In::kValue] == of.outputs[Out::kPresentValue] && !is_present_taken(i);
      if (is_behind) found.insert(i);
    }
    return {found.begin(), found.end()};
  }

  const Graph& graph_;
  const Links& links_;
  std::vector<AttentionCache> caches_;
};

}  // namespace

std::vector<AttentionCache> attention_caches(const Graph& graph, const Links& links) {
  return Caches(graph, links).run();
}

}  // namespace crumb::graph
