#include "export/project/scores.h"

#include <algorithm>

namespace crumb::exporting {

graph::Graph without_last_softmax(graph::Graph graph, std::vector<std::string>* scores) {
  for (std::string& output : graph.outputs) {
    const auto made = std::ranges::find_if(graph.nodes, [&](const graph::Node& node) {
      return node.is("Softmax") && node.has_output(0) && node.outputs[0] == output;
    });
    const bool is_taken = std::ranges::any_of(graph.nodes, [&](const graph::Node& node) {
      return std::ranges::find(node.inputs, output) != node.inputs.end();
    });
    if (made == graph.nodes.end() || is_taken) continue;
    output = made->inputs[0];
    if (scores) scores->push_back(output);
    graph.nodes.erase(made);
  }
  return graph;
}

}  // namespace crumb::exporting
