#include "export/qcdq/rewriter.h"

#include <algorithm>

#include "graph/onnx/infer_shapes.h"
#include "graph/passes/passes.h"

namespace crumb::exporting {

using graph::Graph;
using graph::Node;

Rewriter::Rewriter(const Graph& graph) : opsets_(graph.opsets) {
  value_names_.insert(graph.inputs.begin(), graph.inputs.end());
  for (const auto& [name, tensor] : graph.initializers) value_names_.insert(name);
  for (const auto& [name, value] : graph.values) value_names_.insert(name);
  for (const Node& node : graph.nodes) {
    node_names_.insert(node.name);
    value_names_.insert(node.outputs.begin(), node.outputs.end());
  }
}

std::string Rewriter::unused(std::set<std::string>& names, const std::string& requested) {
  std::string name = requested;
  for (int i = 1; !names.insert(name).second; ++i) name = requested + "_" + std::to_string(i);
  return name;
}

std::string Rewriter::constant(const std::string& requested, graph::Tensor tensor) {
  std::string name = unused(value_names_, requested);
  values_[name] = graph::value_of(tensor);
  initializers_.emplace(name, std::move(tensor));
  return name;
}

std::string Rewriter::fresh_value(const std::string& requested, graph::Value known) {
  std::string name = unused(value_names_, requested);
  values_[name] = std::move(known);
  return name;
}

std::string Rewriter::node(New made) {
  if (made.output.empty()) made.output = fresh_value(made.name + "_out", std::move(made.known));
  const auto opset = opsets_.find(made.domain);
  nodes_.push_back({.name = unused(node_names_, made.name),
                    .op = std::move(made.op),
                    .domain = made.domain,
                    .version = opset == opsets_.end() ? 1 : opset->second,
                    .inputs = std::move(made.inputs),
                    .outputs = {made.output},
                    .attributes = std::move(made.attributes)});
  return made.output;
}

Graph Rewriter::finish(Graph graph) && {
  graph.nodes = std::move(nodes_);
  graph.initializers.merge(initializers_);
  graph.values.merge(values_);
  std::set<std::string> domains;
  for (const Node& node : graph.nodes) domains.insert(node.domain);
  std::erase_if(graph.opsets, [&](const auto& entry) {
    return (entry.first == graph::kQonnxDomain || entry.first == graph::kChannelsLastDomain) &&
           !domains.contains(entry.first);
  });
  for (const Node& node : graph.nodes) graph.opsets.try_emplace(node.domain, node.version);
  return graph::infer_shapes(graph::tidy(std::move(graph)));
}

std::string name_of(const Node& node) {
  if (!node.name.empty() || !node.has_output(0)) return node.name;
  return node.outputs[0];
}

}  // namespace crumb::exporting
