#include "graph/facts/infer_datatypes.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "graph/facts/constant_operators.h"
#include "graph/facts/range_rules.h"
#include "graph/facts/usual_types.h"

namespace crumb::graph {
namespace {

/// Infers by TypeRules::kExact.
class Inference {
 public:
  Inference(const Graph& graph, const ConstantValues& constants, const InputRanges& given)
      : graph_(graph), constants_(constants), given_(given) {}

  std::map<std::string, ValueType> run() {
    for (const auto& [name, tensor] : graph_.initializers) types_[name] = of_constant(name, tensor);
    for (const std::string& name : graph_.inputs) types_[name] = of_input(name);
    for (const Node& node : graph_.nodes) {
      for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.has_output(i)) types_[node.outputs[i]] = made_by(node, i);
      }
    }
    return std::move(types_);
  }

 private:
  ElementType element_type(const std::string& name) const {
    const Value* value = graph_.find(name);
    return value ? value->type : ElementType::kUnknown;
  }

  /// An assumption, because no node computes an input.
  ValueType of_input(const std::string& name) const {
    const auto annotation = annotated_type(graph_, name);
    ValueType made = of_type(annotation ? *annotation : exact_data_type(element_type(name)));
    const auto range = given_.find(name);
    if (!made.levels && range != given_.end())
      made.levels = ranged({.scale = 1}, range->second.first, range->second.second);
    if (made.levels) made.levels->assumed = true;
    return made;
  }

  /// The numbers determine the range; an annotation that they satisfy gives the width.
  ValueType of_constant(const std::string& name, const Tensor& tensor) const {
    const auto annotation = annotated_type(graph_, name);
    ValueType made = of_type(annotation ? *annotation : exact_data_type(tensor.type()));
    if (!made.levels) return made;
    const auto constant = constant_of(tensor);
    const auto levels = constant ? on_grid(*made.levels, constant->values) : std::nullopt;
    const bool holds = levels && std::ranges::all_of(constant->values,
                                                     [&](double value) { return made.type.allows(value); });
    if (holds) {
      made.levels->low = levels->low;
      made.levels->high = levels->high;
      return made;
    }
    made.levels = constant ? on_grid({.scale = 1}, constant->values) : std::nullopt;
    made.type = type_of(made.levels);
    return made;
  }

  ValueType made_by(const Node& node, std::size_t output) const {
    const RangeCall call(graph_, constants_, types_, node, output);
    if (const RangeRule rule = find_range_rule(node, output)) return rule(call);
    return {.type = type_without_range(call)};
  }

  /// Returns the type of an output without a range rule.
  static DataType type_without_range(const RangeCall& call) {
    const Node& node = call.node();
    if (node.is("XnorPopcountMatMul", kQonnxDomain)) return DataType::integer(32, false);
    if (!is_any(node, trait::kTypeOfOperands)) return exact_data_type(call.element_made());
    std::vector<DataType> operands;
    for (std::size_t i = 0; i < call.inputs(); ++i) {
      if (call.has(i)) operands.push_back(call.in(i).type);
    }
    return type_of_product(operands, false);
  }

  const Graph& graph_;
  const ConstantValues& constants_;
  const InputRanges& given_;
  std::map<std::string, ValueType> types_;
};

/// Returns the type that a constant's numbers need; the known type if it holds them.
std::optional<DataType> integer_type_of(const ConstantValue& constant, const DataType& known) {
  const auto& values = constant.values;
  if (known.is_integer() && std::ranges::all_of(values, [&](double v) { return known.allows(v); }))
    return known;
  double low = 0, high = 0;
  for (const double value : values) {
    if (!std::isfinite(value) || std::trunc(value) != value) return {};
    low = std::min(low, value);
    high = std::max(high, value);
  }
  const DataType least = DataType::least_integer(low, high);
  return least.is_integer() ? std::optional(least) : std::nullopt;
}

}  // namespace

std::map<std::string, ValueType> infer_data_types(const Graph& graph, const ConstantValues& constants,
                                                  TypeRules rules, const InputRanges& given) {
  if (rules == TypeRules::kExact) return Inference(graph, constants, given).run();
  std::map<std::string, ValueType> types;
  for (const auto& [name, type] : usual_types(graph, constants)) types[name].type = type;
  return types;
}

Graph without_claims(Graph graph) {
  const std::set<std::string> inputs(graph.inputs.begin(), graph.inputs.end());
  for (auto& [name, value] : graph.values) {
    if (inputs.contains(name) || graph.constant(name) || graph.quantized.contains(name)) continue;
    value.type = ElementType::kUnknown;
    value.shape.reset();
  }
  return graph;
}

Graph annotate_integers(Graph graph) {
  const ConstantValues constants(graph);
  const auto types = infer_data_types(graph, constants, TypeRules::kExact);
  for (auto& [name, value] : graph.values) value.annotations.erase(kDatatypeAnnotation);
  for (const auto& [name, known] : types) {
    const Tensor* constant = graph.constant(name);
    const ElementType container = constant ? constant->type() : graph.values[name].type;
    // Integer types need no inference, and qonnx cannot round booleans.
    if (is_integer(container) || container == ElementType::kBool) continue;
    std::optional<DataType> type;
    if (known.type.is_integer()) type = known.type;
    if (constants.is_constant(name) && known.type.is_integer()) {
      const auto values = constants.find(name);
      type = values ? integer_type_of(*values, known.type) : std::nullopt;
    }
    if (type) graph.values[name].annotations[kDatatypeAnnotation] = type->name();
  }
  return graph;
}

}  // namespace crumb::graph
