#include "ptq/transforms/biased_layers.h"

#include <cstdint>

#include "graph/branches.h"
#include "graph/quantize/operators.h"

namespace crumb::ptq {
namespace {

using graph::Graph;
using graph::Tensor;

/// Whether it has one number for each output of the layer, the same at all positions: it may be along another
/// axis instead, and as long.
bool is_of_outputs(const Tensor& bias, std::int64_t outputs) {
  if (bias.size() != outputs) return false;
  return outputs == 1 || bias.shape().back() == outputs;
}

}  // namespace

BiasedLayers biased_layers(const Setting& setting) {
  const Graph& graph = setting.graph;
  const graph::Links links(graph);
  BiasedLayers found;
  for (const SampledLayer& layer : sampled_layers(graph, setting.plan, false)) {
    const auto place = graph::bias_of(graph, links, layer.node);
    const std::string bias = place ? graph.nodes[place->node].inputs[place->input] : std::string();
    const Tensor* constant = place ? graph.constant(bias) : nullptr;
    if (!constant || links.consumers(bias).size() != 1 ||
        !is_of_outputs(*constant, static_cast<std::int64_t>(layer.groups * layer.rows))) {
      ++found.without;
      continue;
    }
    const std::size_t last = graph::last_sum_behind(graph, links, place->node);
    found.layers.push_back({.layer = layer, .bias = bias, .output = graph.nodes[last].outputs[0]});
  }
  return found;
}

}  // namespace crumb::ptq
