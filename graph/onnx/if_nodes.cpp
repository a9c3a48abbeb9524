#include "graph/onnx/if_nodes.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "graph/choose.h"
#include "graph/fresh_names.h"
#include "graph/inline_branches.h"

namespace crumb::graph {
namespace {

class Nester {
 public:
  explicit Nester(const Graph& graph) : graph_(graph), sides_(graph, graph.outputs) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      if (sides_.of(i) == Sides::kNowhere) continue;
      nodes_[sides_.of(i)].push_back(i);
      for (std::size_t at = sides_.of(i); at != Sides::kOutside; at = sides_.side(at).around) note_side(at);
    }
    for (const auto& [name, value] : graph.values) names_.take(name);
    for (const Node& node : graph.nodes) {
      names_.take(node.name);
      for (const std::string& output : node.outputs) names_.take(output);
    }
  }

  std::vector<Node> nodes_of(std::size_t side) {
    std::vector<Node> made;
    const auto found = nodes_.find(side);
    if (found == nodes_.end()) return made;
    for (const std::size_t i : found->second)
      made.push_back(is_choose(graph_.nodes[i]) ? if_node(i) : graph_.nodes[i]);
    return made;
  }

  /// Values that are made in branches: they are no longer the graph's.
  const std::set<std::string>& inner() const { return inner_; }

 private:
  void note_side(std::size_t side) { index_[{sides_.side(side).choose, sides_.side(side).is_then}] = side; }

  Node if_node(std::size_t i) {
    const Node& choose = graph_.nodes[i];
    Node made{.name = choose.name,
              .op = "If",
              .version = graph_.opset(),
              .inputs = {choose.inputs[0]},
              .outputs = choose.outputs,
              .attributes = {},
              .metadata = choose.metadata};
    made.attributes["then_branch"] = branch(i, true);
    made.attributes["else_branch"] = branch(i, false);
    return made;
  }

  Opaque branch(std::size_t choose, bool is_then) {
    const Node& node = graph_.nodes[choose];
    Graph body{.name = node.name + (is_then ? "/then" : "/else")};
    if (const auto side = index_.find({choose, is_then}); side != index_.end())
      body.nodes = nodes_of(side->second);
    std::set<std::string> own;
    for (const Node& inside : body.nodes) own.insert(inside.outputs.begin(), inside.outputs.end());
    const std::size_t first = is_then ? 1 : 1 + node.outputs.size();
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const std::string& value = node.inputs[first + i];
      const bool is_own = own.contains(value) && std::ranges::find(body.outputs, value) == body.outputs.end();
      body.outputs.push_back(is_own ? value : add_identity(value, body));
      if (const Value* known = graph_.find(value)) body.values[body.outputs.back()] = *known;
    }
    for (const std::string& name : own) {
      if (name.empty()) continue;
      inner_.insert(name);
      if (const Value* known = graph_.find(name)) body.values[name] = *known;
    }
    return {.what = "a graph", .body = std::make_shared<const Graph>(std::move(body))};
  }

  std::string add_identity(const std::string& value, Graph& body) {
    const std::string name = names_.unlike(value + "/given");
    body.nodes.push_back(
        {.name = name, .op = "Identity", .version = graph_.opset(), .inputs = {value}, .outputs = {name}});
    return name;
  }

  const Graph& graph_;
  const Sides sides_;
  std::map<std::size_t, std::vector<std::size_t>> nodes_;      ///< by side
  std::map<std::pair<std::size_t, bool>, std::size_t> index_;  ///< sides with nodes, by Choose
  std::set<std::string> inner_;
  FreshNames names_;
};

}  // namespace

Graph with_if_nodes(Graph graph) {
  if (!has_choose(graph)) return graph;
  graph = sorted(std::move(graph));
  Nester nester(graph);
  std::vector<Node> nodes = nester.nodes_of(Sides::kOutside);
  for (const std::string& name : nester.inner()) graph.values.erase(name);
  graph.nodes = std::move(nodes);
  graph.opsets.erase(std::string(kControlDomain));
  return graph;
}

Graph branch_by_branch(Graph graph) {
  if (!has_choose(graph)) return graph;
  return sorted(inline_branches(with_if_nodes(std::move(graph))));
}

}  // namespace crumb::graph
