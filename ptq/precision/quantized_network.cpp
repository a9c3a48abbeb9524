#include "ptq/precision/quantized_network.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "graph/quantize/apply.h"
#include "graph/quantize/calibrate.h"
#include "ptq/rounding/final_constants.h"

namespace crumb::ptq {
namespace {

using graph::Graph;
using graph::Node;
using graph::PlannedEdge;

/// Returns the nodes that compute `made` from `value` as the edge's quantizer does.
std::vector<Node> quantizer_of(Graph& graph, const PlannedEdge& edge, const std::string& value,
                               const std::string& made) {
  std::vector<Node> nodes = graph::activation_quantizer(graph, edge, edge.value + "_seen");
  for (Node& node : nodes) {
    std::ranges::replace(node.inputs, edge.value, value);
    if (node.name.empty()) node.name = graph.unused_node_name(made + "_quant");
  }
  nodes.back().inputs[0] = value;
  nodes.back().outputs = {made};
  return nodes;
}

std::string add_like(Graph& graph, const std::string& value, const char* what) {
  std::string name = graph.unused_value_name(value + what);
  if (const graph::Value* known = graph.find(value)) graph.values[name] = graph::Value(*known);
  return name;
}

}  // namespace

std::vector<SampledLayer> QuantizedNetwork::placed(std::vector<SampledLayer> layers) const {
  for (SampledLayer& layer : layers) layer.node = places[layer.node];
  return layers;
}

QuantizedNetwork quantized_network(Setting& setting, bool quantizes_values) {
  if (quantizes_values && setting.plan.needs_calibration())
    graph::calibrate(setting.graph, *setting.engine, setting.samples, setting.plan);
  QuantizedNetwork made{.graph = setting.graph, .places = {}};
  Graph& graph = made.graph;
  finish_constants(setting, graph);
  std::map<std::string, std::string> floats;        // by a quantized value's name, the float value
  std::map<std::string, std::vector<Node>> behind;  // by the float value's name, its quantizer
  for (const PlannedEdge& edge : setting.plan.edges) {
    if (!quantizes_values || edge.truncation || floats.contains(edge.value)) continue;
    const std::string before = floats[edge.value] = add_like(graph, edge.value, "_float");
    behind[before] = quantizer_of(graph, edge, before, edge.value);
    for (Node& node : graph.nodes)
      if (!edge.is_taken_by(node)) std::ranges::replace(node.inputs, edge.value, before);
  }
  std::vector<Node> nodes;
  const auto add_behind = [&](std::string& value) {
    const auto found = floats.find(value);
    if (found == floats.end()) return;
    value = found->second;
    std::ranges::move(behind.at(value), std::back_inserter(nodes));
  };
  for (std::string& input : graph.inputs) add_behind(input);
  for (Node& node : graph.nodes) {
    made.places.push_back(nodes.size());
    nodes.push_back(std::move(node));
    std::vector<std::string> outputs = nodes.back().outputs;
    for (std::string& output : outputs) add_behind(output);
    nodes[made.places.back()].outputs = std::move(outputs);
  }
  graph.nodes = std::move(nodes);
  return made;
}

}  // namespace crumb::ptq
