#include "export/finn/layers.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/files/text.h"
#include "export/lint/subject.h"
#include "graph/facts/infer_datatypes.h"

namespace crumb::exporting::finn {
namespace {

using Json = nlohmann::ordered_json;

std::int64_t elements_of(const Graph& graph, const std::string& value) {
  const auto shape = graph.shape_of(value);
  std::int64_t elements = shape ? 1 : 0;
  for (const graph::Dim& dim : shape.value_or(Shape{})) elements *= dim.known() ? dim.size : 0;
  return elements;
}

/// Products alone: what lies in a bias is added behind.
analysis::ProductLayer without_bias(analysis::ProductLayer layer) {
  layer.bias = graph::BiasPlace::kNone;
  layer.bias_codes.clear();
  return layer;
}

/// What a value can be, by its levels.
std::optional<InputSpan> span_by_levels(const std::map<std::string, graph::ValueType>& types,
                                        const std::string& value, bool is_quantized_first) {
  const auto found = types.find(value);
  if (found == types.end() || !found->second.levels || !found->second.levels->scale) return {};
  const graph::Levels& levels = *found->second.levels;
  const double scale = *levels.scale;
  return InputSpan{levels.low * scale, levels.high * scale, levels.unit() * scale, is_quantized_first};
}

/// The levels of what a quantizer or thresholds make of an input, in its own numbers.
std::optional<InputSpan> span_at(const Graph& graph, const std::map<std::string, graph::ValueType>& types,
                                 const Node& taker) {
  if (is_thresholds(taker)) {
    const Tensor* thresholds = constant_input(graph, taker, 1);
    if (!thresholds || thresholds->type() != graph::ElementType::kFloat || thresholds->size() == 0) return {};
    const std::vector<float> values = thresholds->to_floats();
    const auto [least, most] = std::ranges::minmax(values);
    const double count = static_cast<double>(thresholds->shape().back());
    const double step = count > 1 ? (static_cast<double>(most) - least) / (count - 1) : 1.0;
    return InputSpan{least - step / 2, most + step / 2, step, true};
  }
  if (!is_quant(taker) && !is_bipolar(taker)) return {};
  return span_by_levels(types, output_of(taker), true);
}

/// x * factor + shift, where the node computes that, or moves x.
struct Affine {
  double factor = 1, shift = 0;
};
std::optional<Affine> affine(const Graph& graph, const Node& node) {
  if (node.is("Transpose") || node.is("Reshape") || node.is("Flatten") || node.is("Identity"))
    return Affine{};
  const auto constant = uniform(constant_input(graph, node, 1));
  if (!constant) return {};
  const double number = *constant;
  if (node.is("Add")) return Affine{1, number};
  if (node.is("Sub")) return Affine{1, -number};
  if (node.is("Mul") && number != 0) return Affine{number, 0};
  if (node.is("Div") && number != 0) return Affine{1 / number, 0};
  return {};
}

std::optional<InputSpan> span_of(const Graph& graph, const std::map<std::string, graph::ValueType>& types,
                                 const Links& links, const std::string& value) {
  if (const auto own = span_by_levels(types, value, false)) return own;
  std::optional<InputSpan> widest;
  for (const std::size_t consumer : links.consumers(value)) {
    const Node& node = graph.nodes[consumer];
    auto one = span_at(graph, types, node);
    if (const auto change = one ? std::nullopt : affine(graph, node)) {
      one = span_of(graph, types, links, output_of(node));
      if (!one) return {};
      const double ends[] = {(one->low - change->shift) / change->factor,
                             (one->high - change->shift) / change->factor};
      one = InputSpan{std::min(ends[0], ends[1]), std::max(ends[0], ends[1]),
                      one->step / std::fabs(change->factor), true};
    }
    if (!one) return {};
    if (!widest || one->high - one->low > widest->high - widest->low) widest = one;
  }
  return widest;
}

}  // namespace

nlohmann::ordered_json layers_of(const graph::Graph& graph, const analysis::GivenRanges& given) {
  Json found = Json::array();
  std::string unknown;
  const analysis::ProductLayers layers(graph, given);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const analysis::ProductLayer layer = without_bias(layers.layer(i));
    if (!layer.has_codes() && !layer.is_float) continue;  // both sides are computed
    if (!layer.failure().empty() || !layer.input_range) {
      unknown += "\n  " + layer.text() + ": " + layer.failure();
      continue;
    }
    const auto sums = layer.worst_sums(0);
    if (!sums) {
      unknown += "\n  " + layer.text() + ": its sums do not fit 64 bits";
      continue;
    }
    WorstSums worst;
    for (const graph::ChannelSums& channel : *sums) {
      for (const WorstSums& one : channel) {
        worst.min = std::min(worst.min, one.min);
        worst.max = std::max(worst.max, one.max);
      }
    }
    const std::int64_t outputs = elements_of(graph, output_of(layers.node(i)));
    found.push_back({{"node", layers.node(i).name},
                     {"input", {{"min", layer.input_range->low}, {"max", layer.input_range->high}}},
                     {"accumulator", {{"min", worst.min}, {"max", worst.max}}},
                     {"macs", outputs * static_cast<std::int64_t>(layer.length)}});
  }
  if (!unknown.empty()) throw Error("FINN's accumulators cannot be derived for every layer:" + unknown);
  return found;
}

std::map<std::string, InputSpan> spans_of(const graph::Graph& graph, const analysis::GivenRanges& given) {
  const auto types = graph::infer_data_types(graph, graph::ConstantValues(graph), graph::TypeRules::kExact,
                                             analysis::as_numbers(graph, given));
  const Links links(graph);
  std::map<std::string, InputSpan> spans;
  for (const std::string& input : graph.inputs) {
    if (const auto span = span_of(graph, types, links, input)) spans[input] = *span;
  }
  return spans;
}

}  // namespace crumb::exporting::finn
