#include "graph/control/names.h"

#include <algorithm>
#include <set>

#include "graph/edit.h"

namespace crumb::graph {

void replace_all(Graph& graph, const std::map<std::string, std::string>& values) {
  const auto last_of = [&](const std::string& value) -> const std::string& {
    const std::string* last = &value;
    for (auto at = values.find(value); at != values.end(); at = values.find(*last)) last = &at->second;
    return *last;
  };
  for (Node& node : graph.nodes)
    for (std::string& input : node.inputs) input = last_of(input);
  const std::size_t first = graph.nodes.size();
  std::set<std::string> given;
  for (const std::string& output : graph.outputs) {
    if (!values.contains(output) || !given.insert(output).second) continue;
    graph.nodes.push_back({.name = graph.unused_node_name(output),
                           .op = "Identity",
                           .version = graph.opset(),
                           .inputs = {last_of(output)},
                           .outputs = {output}});
  }
  for (std::size_t i = graph.nodes.size(); i-- > first;) bypass(graph, i, 0);
}

}  // namespace crumb::graph
