#include "graph/facts/constant_values.h"

#include <algorithm>

#include "graph/facts/constant_operators.h"

namespace crumb::graph {
namespace {

constexpr int kMostDepth = 200;  // nodes, at most, between a constant and its initializers

}  // namespace

bool ConstantValue::all_are(double number) const {
  return std::ranges::all_of(values, [&](double value) { return value == number; });
}

bool ConstantValue::one_scale_along(std::size_t axis) const {
  if (scale.size() <= 1) return true;
  const std::size_t missing = shape.size() - scale_shape.size();
  return axis < missing || scale_shape[axis - missing] == 1;
}

ConstantValues::ConstantValues(const Graph& graph) : graph_(graph), links_(graph) {
  for (const auto& [name, tensor] : graph.initializers) constants_.insert(name);
  for (const Node& node : graph.nodes) {
    if (is_random(node) || is_opaque(node)) continue;
    const bool all = std::ranges::all_of(
        node.inputs, [&](const std::string& value) { return value.empty() || constants_.contains(value); });
    if (!all && !known_shape(graph, node)) continue;
    for (const std::string& value : node.outputs) {
      if (!value.empty()) constants_.insert(value);
    }
  }
}

std::shared_ptr<const ConstantValue> ConstantValues::compute(const std::string& value, int depth,
                                                             Memo& memo) const {
  if (const auto found = memo.find(value); found != memo.end()) return found->second;
  MadeConstant made;
  const std::size_t producer = links_.producer(value);
  if (const Tensor* tensor = graph_.constant(value)) {
    made = constant_of(*tensor);
  } else if (constants_.contains(value) && producer != Links::kNone && depth < kMostDepth) {
    const Node& node = graph_.nodes[producer];
    if (const auto constant = constant_of(node)) {
      made = constant_of(*constant);
    } else if (auto shape = known_shape(graph_, node)) {
      made = std::move(shape);
    } else if (node.outputs[0] == value) {
      ConstantInputs inputs;
      bool known = true;
      for (const std::string& input : node.inputs) {
        inputs.push_back(input.empty() ? nullptr : compute(input, depth + 1, memo));
        known &= input.empty() || inputs.back();
      }
      if (known) made = constant_made_by(graph_, node, inputs);
    }
  }
  auto shared = made ? std::make_shared<const ConstantValue>(std::move(*made)) : nullptr;
  memo[value] = shared;
  return shared;
}

std::optional<ConstantValue> ConstantValues::find(const std::string& value) const {
  Memo memo;
  const auto found = compute(value, 0, memo);
  return found ? std::optional(*found) : std::nullopt;
}

std::optional<double> ConstantValues::number(const std::string& value) const {
  const auto found = find(value);
  return found && found->values.size() == 1 ? std::optional(found->values[0]) : std::nullopt;
}

}  // namespace crumb::graph
