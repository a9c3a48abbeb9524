#include "runtime/fuse/regions.h"

#include <algorithm>

namespace crumb::runtime {
namespace {

class Finder {
 public:
  Finder(const graph::Graph& graph, const std::vector<bool>& runs)
      : graph_(graph), links_(graph), free_(graph.nodes.size()) {
    for (std::size_t i = 0; i < free_.size(); ++i)
      free_[i] = runs[i] && elementwise_of(graph.nodes[i]).has_value();
  }

  std::vector<std::vector<std::size_t>> run() {
    std::vector<std::vector<std::size_t>> regions;
    for (std::size_t root = graph_.nodes.size(); root-- > 0;) {
      if (!free_[root]) continue;
      std::vector<std::size_t> region{root};
      free_[root] = false;
      for (bool grows = true; grows;) grows = grow(region);
      if (region.size() < 2) continue;
      std::ranges::sort(region);
      regions.push_back(std::move(region));
    }
    return regions;
  }

 private:
  /// Adds nodes whose output only the region takes; returns false where there are none.
  bool grow(std::vector<std::size_t>& region) {
    const std::size_t before = region.size();
    for (std::size_t at = 0; at < region.size(); ++at) {
      const Elementwise what = *elementwise_of(graph_.nodes[region[at]]);
      if (!takes_floats(what)) continue;
      for (const std::string& value : graph_.nodes[region[at]].inputs) {
        if (what == Elementwise::kClip && &value != graph_.nodes[region[at]].inputs.data()) break;  // a limit
        const std::size_t producer = value.empty() ? graph::Links::kNone : links_.producer(value);
        if (producer == graph::Links::kNone || !free_[producer] || links_.is_output(value)) continue;
        if (!makes_floats(*elementwise_of(graph_.nodes[producer]))) continue;
        const auto inside = [&](std::size_t node) { return std::ranges::find(region, node) != region.end(); };
        if (!std::ranges::all_of(links_.consumers(value), inside)) continue;
        free_[producer] = false;
        region.push_back(producer);
      }
    }
    return region.size() > before;
  }

  const graph::Graph& graph_;
  graph::Links links_;
  std::vector<bool> free_;  ///< whether the node may join a region
};

}  // namespace

std::vector<std::vector<std::size_t>> regions_of(const graph::Graph& graph, const std::vector<bool>& runs) {
  return Finder(graph, runs).run();
}

}  // namespace crumb::runtime
