#include "qat/layers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "graph/quantize/edges.h"
#include "graph/quantize/operators.h"

namespace crumb::qat {
namespace {

using graph::Graph;
using graph::Node;

/// Returns the layers from which each value was computed.
std::map<std::string, std::set<std::size_t>> layers_behind(const Graph& graph,
                                                           const std::vector<Layer>& layers) {
  std::map<std::size_t, std::size_t> by_node;
  for (std::size_t i = 0; i < layers.size(); ++i) by_node[layers[i].node] = i;
  std::map<std::string, std::set<std::size_t>> behind;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    std::set<std::size_t> all;
    for (const std::string& input : node.inputs) all.insert(behind[input].begin(), behind[input].end());
    if (const auto layer = by_node.find(i); layer != by_node.end()) all.insert(layer->second);
    for (const std::string& output : node.outputs) behind[output] = all;
  }
  return behind;
}

/// Returns the one edge that a value comes from; none where it comes from several of different scales, or
/// from none.
std::optional<std::size_t> edge_of(const Graph& graph, const graph::Links& links,
                                   const graph::Constants& constants, const graph::QuantPlan& plan,
                                   const std::string& value) {
  const auto tokens = std::ranges::find(plan.edges, value, &graph::PlannedEdge::value);
  if (tokens != plan.edges.end() && tokens->spec.is_dynamic())
    return static_cast<std::size_t>(tokens - plan.edges.begin());
  const graph::Sources sources = graph::sources_of(graph, links, constants, value);
  std::optional<std::size_t> found;
  for (const std::string& source : sources.values) {
    const auto edge = std::ranges::find(plan.edges, source, &graph::PlannedEdge::value);
    if (edge == plan.edges.end()) return std::nullopt;
    if (found && plan.edges[*found].scale_group != edge->scale_group) return std::nullopt;
    found = static_cast<std::size_t>(edge - plan.edges.begin());
  }
  return found;
}

}  // namespace

std::vector<Layer> layers_of(const Graph& graph, const graph::QuantPlan& plan) {
  const graph::Constants constants(graph);
  const graph::Links links(graph);
  std::map<std::string, std::size_t> planned;
  for (std::size_t i = 0; i < plan.constants.size(); ++i) {
    if (plan.constants[i].is_weight && plan.constants[i].spec) planned[plan.constants[i].value] = i;
  }
  std::vector<Layer> layers;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    for (const graph::WeightInput& weight : graph::weight_inputs(graph, node, constants)) {
      const std::string& value = node.inputs[weight.input];
      const auto constant = planned.find(value);
      if (constant == planned.end() || weight.is_embedding) continue;
      Layer layer{.constant = constant->second, .node = i, .is_depthwise = graph::is_depthwise(graph, node)};
      layer.edge = edge_of(graph, links, constants, plan, node.inputs[weight.input == 0 ? 1 : 0]);
      for (std::size_t b = 0; b < plan.biases.size(); ++b) {
        if (plan.biases[b].weight == value) layer.bias = b;
      }
      layers.push_back(layer);
      planned.erase(constant);
    }
  }
  const auto behind = layers_behind(graph, layers);
  std::set<std::size_t> followed;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::set<std::size_t> before = behind.at(graph.nodes[layers[i].node].outputs[0]);
    before.erase(i);
    layers[i].is_first = before.empty();
    followed.insert(before.begin(), before.end());
  }
  for (std::size_t i = 0; i < layers.size(); ++i) layers[i].is_last = !followed.contains(i);
  return layers;
}

std::optional<IntegerRange> code_range(const QuantSpec& spec, float zero_point) {
  if (spec.number->grid != Grid::kInteger || std::trunc(zero_point) != zero_point) return std::nullopt;
  const auto zero = static_cast<std::int64_t>(zero_point);
  return IntegerRange{spec.number->least_code(spec.range) - zero,
                      spec.number->greatest_code(spec.range) - zero};
}

}  // namespace crumb::qat
