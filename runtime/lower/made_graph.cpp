#include "runtime/lower/made_graph.h"

#include <algorithm>
#include <set>
#include <utility>

namespace crumb::runtime {

using graph::Node;

MadeGraph::MadeGraph(const graph::Graph& from) : graph_(from) {
  for (const auto& [name, known] : from.values) names_.take(name);
  for (const auto& [name, tensor] : from.initializers) names_.take(name);
  for (const auto& [name, tensor] : from.quantized) names_.take(name);
  for (const Node& node : from.nodes) {
    for (const std::string& input : node.inputs) names_.take(input);
    for (const std::string& output : node.outputs) names_.take(output);
  }
  graph_.nodes.clear();
}

void MadeGraph::know(const std::string& codes, graph::ElementType type, const std::string& like) {
  graph::Value& value = graph_.values[codes];
  value.type = type;
  if (const graph::Value* known = graph_.find(like)) value.shape = known->shape;
}

std::string MadeGraph::add(const std::string& requested, graph::Tensor tensor) {
  const std::string name = fresh(requested);
  graph_.initializers.emplace(name, std::move(tensor));
  return name;
}

std::string MadeGraph::add(const std::string& requested, graph::QuantizedConstant constant) {
  const std::string name = fresh(requested);
  know(name, graph::ElementType::kFloat, {});
  graph_.quantized.emplace(name, std::move(constant));
  return name;
}

void MadeGraph::drop_unused() {
  std::set<std::string, std::less<>> used(graph_.outputs.begin(), graph_.outputs.end());
  std::vector<Node> kept;
  for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
    const bool is_used = std::ranges::any_of(
        node->outputs, [&](const std::string& value) { return !value.empty() && used.contains(value); });
    if (!is_used) continue;
    used.insert(node->inputs.begin(), node->inputs.end());
    kept.push_back(std::move(*node));
  }
  std::ranges::reverse(kept);
  graph_.nodes = std::move(kept);
  std::erase_if(graph_.initializers, [&](const auto& entry) { return !used.contains(entry.first); });
  std::erase_if(graph_.quantized, [&](const auto& entry) { return !used.contains(entry.first); });
}

}  // namespace crumb::runtime
