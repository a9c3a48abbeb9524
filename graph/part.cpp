#include "graph/part.h"

#include <algorithm>
#include <set>

#include "base/files/text.h"
#include "graph/edit.h"

namespace crumb::graph {

Graph part_of(const Graph& graph, const std::vector<std::string>& given,
              const std::vector<std::string>& wanted) {
  const Links links(graph);
  for (const std::string& value : wanted)
    if (links.producer(value) == Links::kNone) throw Error("no node makes the value " + quote_text(value));
  std::set<std::string> needed(wanted.begin(), wanted.end());
  std::set<std::size_t> nodes;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    const bool is_needed = std::ranges::any_of(node.outputs, [&](const std::string& output) {
      return needed.contains(output) && std::ranges::find(given, output) == given.end();
    });
    if (!is_needed) continue;
    nodes.insert(i);
    needed.insert(node.inputs.begin(), node.inputs.end());
  }
  Graph part = graph;
  part.nodes.clear();
  for (const std::size_t i : nodes) part.nodes.push_back(graph.nodes[i]);
  part.outputs = wanted;
  std::erase_if(part.inputs, [&](const std::string& input) { return !needed.contains(input); });
  for (const std::string& value : given)
    if (needed.contains(value)) part.inputs.push_back(value);
  drop_unused(part);
  return part;
}

}  // namespace crumb::graph
