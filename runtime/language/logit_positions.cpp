#include "runtime/language/logit_positions.h"

#include <algorithm>
#include <set>

namespace crumb::runtime {
namespace {

using graph::Graph;
using graph::Links;
using graph::Node;

constexpr const char* kLogits = "logits";

/// The node that makes, as output 0, what the logits follow from by way of first inputs. Links::kNone where
/// there is no such norm.
std::size_t last_norm(const Graph& graph, const Links& links) {
  std::size_t at = links.producer(kLogits);
  while (at != Links::kNone) {
    const Node& node = graph.nodes[at];
    if (node.is("RMSNormalization") || node.is("LayerNormalization")) return at;
    if (node.inputs.empty()) return Links::kNone;
    at = links.producer(node.inputs[0]);
  }
  return at;
}

/// All values that depend on a value, in the order of the nodes.
std::set<std::string> follows_from(const Graph& graph, const std::string& value) {
  std::set<std::string> found{value};
  for (const Node& node : graph.nodes) {
    if (std::ranges::none_of(node.inputs, [&](const std::string& input) { return found.contains(input); }))
      continue;
    found.insert(node.outputs.begin(), node.outputs.end());
  }
  return found;
}

/// Values that were as long as the run become as long as the kept positions.
void restate_shapes(Graph& graph, const std::set<std::string>& values) {
  for (const std::string& name : values) {
    const auto value = graph.values.find(name);
    if (value == graph.values.end() || !value->second.shape) continue;
    graph::Shape& shape = *value->second.shape;
    if (shape.size() == 3) {
      shape[1] = graph::Dim("kept");
    } else {
      value->second.shape.reset();
    }
  }
}

}  // namespace

Graph with_logit_positions(Graph graph) {
  const Links links(graph);
  const std::size_t norm = last_norm(graph, links);
  if (norm == Links::kNone || links.is_output(graph.nodes[norm].outputs[0])) return graph;
  const std::string all = graph.nodes[norm].outputs[0];
  const std::string kept = graph.unused_value_name(all + ".kept");
  std::set<std::string> changed = follows_from(graph, all);
  changed.erase(all);
  restate_shapes(graph, changed);
  if (const graph::Value* value = graph.find(all)) {
    graph.values[kept] = *value;
    restate_shapes(graph, {kept});
  }
  for (Node& node : graph.nodes) std::ranges::replace(node.inputs, all, kept);
  Node gather{.name = graph.unused_node_name(kept),
              .op = "Gather",
              .domain = "",
              .version = graph.opset(),
              .inputs = {all, kLogitPositions},
              .outputs = {kept},
              .attributes = {{"axis", std::int64_t{1}}}};
  graph.nodes.insert(graph.nodes.begin() + static_cast<std::ptrdiff_t>(norm) + 1, std::move(gather));
  graph.inputs.emplace_back(kLogitPositions);
  graph.values[kLogitPositions] = {.type = graph::ElementType::kInt64,
                                   .shape = graph::Shape{graph::Dim("kept")}};
  return graph;
}

}  // namespace crumb::runtime
