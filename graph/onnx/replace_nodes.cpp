#include "graph/onnx/replace_nodes.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/onnx/block_operators.h"

namespace crumb::graph {

Graph replace_nodes(Graph graph, const std::function<bool(const Node&)>& is_candidate,
                    const std::function<bool(NodeWriter&)>& write) {
  if (std::ranges::none_of(graph.nodes, is_candidate)) return graph;
  std::set<std::string> names;
  std::vector<std::string> reserved;  // so that no new value takes the name
  for (const Node& node : graph.nodes) {
    names.insert(node.name);
    for (const std::string& output : node.outputs)
      if (!output.empty() && graph.values.try_emplace(output).second) reserved.push_back(output);
  }
  NodeWriter::Shared shared;
  std::vector<Node> before = std::exchange(graph.nodes, {}), after;
  for (Node& node : before) {
    NodeWriter writer(graph, node, names, shared);
    if (is_candidate(node) && node.has_output(0) && write(writer))
      std::ranges::move(writer.finish(shared), std::back_inserter(after));
    else
      after.push_back(std::move(node));
  }
  graph.nodes = std::move(after);
  for (const std::string& name : reserved) graph.values.erase(name);
  drop_unused(graph);
  if (std::ranges::none_of(graph.nodes, [](const Node& node) { return node.domain == kOnnxruntimeDomain; }))
    graph.opsets.erase(std::string(kOnnxruntimeDomain));
  return graph;
}

}  // namespace crumb::graph
