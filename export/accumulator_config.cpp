#include "export/accumulator_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "export/lint/subject.h"
#include "models/graph/cost/cost.h"

namespace crumb::exporting {
namespace {

constexpr int kMostSteps = 64;  // between a quantizer and the layer that takes its values

/// Operators whose output holds nothing but values of their first input.
constexpr std::array<std::string_view, 8> kMovers = {"Reshape", "Flatten",   "Transpose", "Squeeze",
                                                     "MaxPool", "Unsqueeze", "Identity",  "Slice"};

/// The scale of the quantizer before a value; nothing where there is none, or it has several.
std::optional<float> scale_before(const Graph& graph, const Links& links, std::string value) {
  for (int step = 0; step < kMostSteps; ++step) {
    const std::size_t at = links.producer(value);
    if (at == Links::kNone) return {};
    const Node& node = graph.nodes[at];
    if (is_integer_quantizer(node)) return uniform(constant_input(graph, node, kScale));
    if (std::ranges::find(kMovers, node.op) == kMovers.end() || !node.has_input(0)) return {};
    value = node.inputs[0];
  }
  return {};
}

std::optional<int> exponent_of(std::optional<float> a, std::optional<float> b) {
  if (!a || !b) return {};
  int first = 0, second = 0;
  if (std::frexp(*a, &first) != 0.5F || std::frexp(*b, &second) != 0.5F) return {};
  return first + second - 2;
}

std::string hls4ml_type(const LayerAccumulator& layer) {
  const std::string bits = std::to_string(layer.type.bits());
  const std::string sign = layer.type.is_signed() ? "" : "u";
  if (!layer.scale_exponent) return "ap_" + sign + "int<" + bits + ">";
  return "ap_" + sign + "fixed<" + bits + "," + std::to_string(layer.type.bits() + *layer.scale_exponent) +
         ">";
}

}  // namespace

std::vector<LayerAccumulator> accumulators_of(const Graph& graph) {
  const Links links(graph);
  std::vector<LayerAccumulator> layers;
  for (const graph::NodeCost& cost : graph::cost_of(graph).nodes) {
    if (!cost.accumulator || !cost.accumulator->exact) continue;
    LayerAccumulator layer{.node = cost.name, .op = cost.op, .type = *cost.accumulator->exact};
    const auto node = std::ranges::find(graph.nodes, cost.name, &Node::name);
    if (node != graph.nodes.end() && node->inputs.size() >= 2) {
      layer.scale_exponent = exponent_of(scale_before(graph, links, node->inputs[0]),
                                         scale_before(graph, links, node->inputs[1]));
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

std::string accumulator_config(const std::vector<LayerAccumulator>& layers) {
  using Json = nlohmann::ordered_json;
  Json hls4ml = Json::object(), finn = Json::object();
  for (const LayerAccumulator& layer : layers) {
    hls4ml[layer.node]["Precision"]["accum"] = hls4ml_type(layer);
    finn[layer.node]["accDataType"] = layer.type.name();
  }
  return Json{{"hls4ml", {{"LayerName", hls4ml}}}, {"finn", finn}}.dump(2) + "\n";
}

}  // namespace crumb::exporting
