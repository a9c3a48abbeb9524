#include "export/accumulator_config.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "export/lint/subject.h"
#include "models/graph/cost/bind_shapes.h"
#include "models/graph/cost/cost.h"
#include "models/graph/qonnx/infer_datatypes.h"

namespace crumb::exporting {
namespace {

using graph::ValueType;

/// The one scale of a value's levels, as float32 has it; nothing where there are several.
std::optional<float> scale_of(const std::map<std::string, ValueType>& types, const std::string& value) {
  const auto found = types.find(value);
  if (found == types.end() || !found->second.levels || !found->second.levels->scale) return {};
  return static_cast<float>(*found->second.levels->scale);
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
  const Graph derived = graph::resolve_shapes(graph::without_claims(graph));
  const graph::ConstantValues constants(derived);
  const auto types = graph::infer_data_types(derived, constants, graph::TypeRules::kExact);
  std::vector<LayerAccumulator> layers;
  for (const graph::NodeCost& cost : graph::cost_of(graph).nodes) {
    if (!cost.accumulator || !cost.accumulator->exact) continue;
    LayerAccumulator layer{.node = cost.name, .op = cost.op, .type = *cost.accumulator->exact};
    const auto node = std::ranges::find(graph.nodes, cost.name, &Node::name);
    if (node != graph.nodes.end() && node->inputs.size() >= 2) {
      layer.scale_exponent = exponent_of(scale_of(types, node->inputs[0]), scale_of(types, node->inputs[1]));
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
