#include "graph/facts/contradictions.h"

#include <algorithm>
#include <cmath>

#include "base/files/counted.h"
#include "graph/facts/bind_shapes.h"
#include "graph/facts/constant_operators.h"
#include "graph/facts/infer_datatypes.h"
#include "graph/facts/level_arithmetic.h"
#include "graph/qonnx/quantized_constants.h"

namespace crumb::graph {
namespace {

/// Products of scales are rounded in float64: the text has the nearest float32.
std::string text_of_number(double number) { return number_text(static_cast<float>(number)); }

/// Names a number of the constant that is not in the type; "" if there is none.
std::string fault_of_constant(const Tensor& tensor, const DataType& type) {
  const auto constant = constant_of(tensor);
  if (!constant) return "";
  for (const double value : constant->values) {
    if (!type.allows(value)) return "it holds " + text_of_number(value);
  }
  return "";
}

/// Names a number in the levels' range that is not in the type; "" if there is none.
std::string fault_of_levels(const ValueType& known, const DataType& type) {
  const Levels& levels = *known.levels;
  if (!levels.one_scale || !levels.scale) return "";
  const double scale = *levels.scale, step = levels.unit() * (levels.halves ? 2 : 1);
  if (known.type == type) return "";
  const auto [least, most] = std::minmax({levels.low * scale, levels.high * scale});
  const std::string range = "its values reach " + text_of_number(least) + ".." + text_of_number(most);
  for (const double level : {levels.low, levels.high}) {
    if (!type.allows(static_cast<float>(level * scale))) return range;
  }
  // The level after the least lies between the bounds.
  const double next = levels.low + step;
  const bool may_be_two = known.type.is_scaled() && levels.high - levels.low == 2 * step;  // -1 and 1, scaled
  const bool may_skip = known.type == DataType::bipolar() || levels.minifloat > 0 || may_be_two;
  if (next < levels.high && !may_skip && !type.allows(static_cast<float>(next * scale)))
    return range + " in steps of " + text_of_number(step * scale);
  return "";
}

/// Returns the type that a node's attributes claim for its output.
std::optional<DataType> claimed_by(const Node& node) {
  if (node.is("MultiThreshold", kQonnxDomain)) {
    const auto type = DataType::parse(node.text_or("out_dtype", "FLOAT32"));
    return type.ok() ? std::optional(type.value()) : std::nullopt;
  }
  if (!node.is("QuantAvgPool2d", kQonnxDomain)) return {};
  const std::int64_t bits = node.int_or("obits", 1);
  if (bits < 1 || bits > DataType::kMostBits) return {};
  return DataType::integer(static_cast<int>(bits), node.int_or("signed", 0) != 0);
}

}  // namespace

std::vector<Contradiction> contradictions(const Graph& graph) {
  Graph derived = graph;
  std::vector<Contradiction> found;
  std::map<std::string, DataType> annotated;
  for (auto& [name, value] : derived.values) {
    const auto text = value.annotations.find(kDatatypeAnnotation);
    if (text == value.annotations.end()) continue;
    const auto type = DataType::parse(text->second);
    if (type.ok()) {
      annotated.emplace(name, type.value());
    } else {
      found.push_back({name, type.failure().message});
      value.annotations.erase(text);
    }
  }
  derived = resolve_shapes(without_claims(lower_or_fold_quantized(sorted(std::move(derived)))));
  const ConstantValues constants(derived);
  const auto types = infer_data_types(derived, constants, TypeRules::kExact);
  const auto is_input = [&](const std::string& name) {
    return std::ranges::find(graph.inputs, name) != graph.inputs.end();
  };
  for (const auto& [name, type] : annotated) {
    if (type.is_float() || type.is_scaled() || is_input(name)) continue;
    const auto known = types.find(name);
    std::string fault;
    if (const Tensor* tensor = graph.constant(name)) {
      fault = fault_of_constant(*tensor, type);
    } else if (known != types.end() && known->second.levels) {
      fault = fault_of_levels(known->second, type);
    }
    if (!fault.empty()) found.push_back({name, "it is annotated as " + type.name() + ", but " + fault});
  }
  for (const Node& node : derived.nodes) {
    const auto claimed = claimed_by(node);
    const auto known = node.has_output(0) ? types.find(node.outputs[0]) : types.end();
    if (!claimed || !(claimed->is_integer() || claimed->is_fixed_point()) || known == types.end() ||
        !known->second.levels)
      continue;
    if (const std::string fault = fault_of_levels(known->second, *claimed); !fault.empty())
      found.push_back({node.outputs[0], text_of(node) + " claims " + claimed->name() + ", but " + fault,
                       Contradiction::Claim::kAttribute});
  }
  for (const auto& [name, value] : graph.values) {
    const Value* known = derived.find(name);
    if (is_input(name) || graph.constant(name) || !known || value.type == known->type) continue;
    if (value.type == ElementType::kUnknown || known->type == ElementType::kUnknown) continue;
    found.push_back({name,
                     "its type is stated as " + std::string(name_of(value.type)) + ", but it is " +
                         std::string(name_of(known->type)),
                     Contradiction::Claim::kElementType});
  }
  std::ranges::stable_sort(found, {}, &Contradiction::value);
  return found;
}

}  // namespace crumb::graph
