#include "ptq/biased_layers.h"

#include <cstdint>

#include "graph/quantize/operators.h"

namespace crumb::ptq {

BiasedLayers biased_layers(const Setting& setting) {
  const graph::Graph& graph = setting.graph;
  const graph::Links links(graph);
  BiasedLayers found;
  for (const SampledLayer& layer : sampled_layers(graph, setting.plan, false)) {
    const auto place = graph::bias_of(graph, links, layer.node);
    const std::string bias = place ? graph.nodes[place->node].inputs[place->input] : std::string();
    const graph::Tensor* constant = place ? graph.constant(bias) : nullptr;
    if (!constant || links.consumers(bias).size() != 1 ||
        constant->size() != static_cast<std::int64_t>(layer.groups * layer.rows)) {
      ++found.without;
      continue;
    }
    found.layers.push_back({.layer = layer, .bias = bias, .output = graph.nodes[place->node].outputs[0]});
  }
  return found;
}

}  // namespace crumb::ptq
