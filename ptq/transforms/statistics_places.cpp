#include "ptq/transforms/statistics_places.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/files/counted.h"

namespace crumb::ptq {
namespace {

using graph::Graph;
using graph::Links;
using graph::Node;

bool has_statistics(const Graph& graph, const Links& links, const Node& node) {
  if (node.int_or("training_mode", 0) != 0) return false;
  for (std::size_t input = 1; input < 5; ++input) {
    const graph::Tensor* constant = node.has_input(input) ? graph.constant(node.inputs[input]) : nullptr;
    if (!constant || constant->type() != graph::ElementType::kFloat) return false;
    if (input > 2 && (links.consumers(node.inputs[input]).size() != 1 || links.is_output(node.inputs[input])))
      return false;
  }
  return true;
}

}  // namespace

StatisticsPlaces statistics_places(const Setting& setting) {
  const Graph& graph = setting.graph;
  const Links links(graph);
  StatisticsPlaces found;
  std::map<std::size_t, StatisticsPlace> places;  // by node
  std::size_t others = 0;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (!node.is("BatchNormalization")) continue;
    if (!has_statistics(graph, links, node)) {
      ++others;
      continue;
    }
    StatisticsPlace& place = places[i];
    place.at.node = i;
    place.at.input = node.inputs[0];
    place.name = node.inputs[1];
    ++found.norms;
  }
  if (others > 0)
    found.notes.push_back(count_text(others, "batch norm") +
                          " without a constant mean and variance of its own: not estimated");
  BiasedLayers layers = biased_layers(setting);
  if (layers.without > 0 && found.norms == 0)
    found.notes.push_back(count_text(layers.without, "layer") + " without a bias of its own: not estimated");
  for (BiasedLayer& layer : layers.layers) {
    const auto takers = links.consumers(layer.output);
    const bool is_before_norms =
        !takers.empty() && !links.is_output(layer.output) &&
        std::ranges::all_of(takers, [&](std::size_t node) { return places.contains(node); });
    if (is_before_norms) continue;
    StatisticsPlace& place = places[layer.layer.node];
    place.at = layer.layer;
    place.name = setting.plan.constants[layer.layer.constant].value;
    place.layer = std::move(layer);
  }
  for (auto& [node, place] : places) found.all.push_back(std::move(place));
  return found;
}

}  // namespace crumb::ptq
