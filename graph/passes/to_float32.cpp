#include "graph/passes/to_float32.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "graph/edit.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/passes/passes.h"

namespace crumb::graph {
namespace {

constexpr auto kFloatNumber = static_cast<std::int64_t>(ElementType::kFloat);
/// Attributes whose number is an element type.
constexpr auto kTypeAttributes = std::to_array<std::string_view>(
    {"to", "dtype", "output_datatype", "output_dtype", "stash_type", "softmax_precision", "precision"});
constexpr std::int64_t kLeastUnread = 1 << 16;  // elements of a constant converted anew on every read

std::vector<float> narrowed_floats(const Tensor& tensor) {
  std::vector<float> values = tensor.to_floats();
  if (tensor.type() != ElementType::kDouble) return values;
  // A mask's lowest double becomes the lowest float32, not -inf, which times 0 is NaN.
  constexpr float kMost = std::numeric_limits<float>::max();
  const auto bytes = tensor.bytes();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isinf(values[i])) continue;
    double wide = 0;
    std::memcpy(&wide, bytes.data() + i * sizeof wide, sizeof wide);
    if (!std::isinf(wide)) values[i] = std::copysign(kMost, values[i]);
  }
  return values;
}

Tensor as_float32(const Tensor& tensor) {
  if (tensor.size() >= kLeastUnread)
    return Tensor::unread(tensor.shape(), [tensor] { return narrowed_floats(tensor); });
  return Tensor::floats(tensor.shape(), narrowed_floats(tensor));
}

void change_attributes(Node& node) {
  for (auto& [name, attribute] : node.attributes) {
    if (auto* tensor = std::get_if<Tensor>(&attribute)) {
      if (is_other_float(tensor->type())) *tensor = as_float32(*tensor);
    } else if (auto* number = std::get_if<std::int64_t>(&attribute)) {
      const auto type = element_type_of(*number);
      if (std::ranges::find(kTypeAttributes, name) != kTypeAttributes.end() && type && is_other_float(*type))
        *number = kFloatNumber;
    }
  }
}

Node cast_node(Graph& graph, const std::string& from, const std::string& to, ElementType type) {
  return {.name = graph.unused_node_name(to + "_cast"),
          .op = "Cast",
          .domain = "",
          .version = graph.opset(),
          .inputs = {from},
          .outputs = {to},
          .attributes = {{"to", static_cast<std::int64_t>(type)}}};
}

/// Returns the types of inputs and outputs that keep them.
std::map<std::string, ElementType> types_of(const Graph& graph, const std::vector<std::string>& names) {
  std::map<std::string, ElementType> types;
  for (const std::string& name : names) {
    if (const Value* value = graph.find(name); value && is_other_float(value->type))
      types[name] = value->type;
  }
  return types;
}

/// The graph computes `name` in float32 under a new name; inputs and outputs keep the old name and type.
void keep_input(Graph& graph, const std::string& name, ElementType type) {
  Value inside = graph.values[name];
  graph.values[name].type = type;
  inside.annotations.clear();
  const std::string made = add_value(graph, name + "_float32", inside);
  for (Node& node : graph.nodes) std::ranges::replace(node.inputs, name, made);
  graph.nodes.insert(graph.nodes.begin(), cast_node(graph, name, made, ElementType::kFloat));
}

void keep_output(Graph& graph, const std::string& name, ElementType type) {
  if (std::ranges::find(graph.inputs, name) != graph.inputs.end()) return;  // keep_input() did it
  Value inside = graph.values[name];
  inside.annotations.clear();
  const std::string made = add_value(graph, name + "_float32", inside);
  for (Node& node : graph.nodes) {
    std::ranges::replace(node.inputs, name, made);
    std::ranges::replace(node.outputs, name, made);
  }
  if (const auto constant = graph.initializers.extract(name))
    graph.initializers.emplace(made, constant.mapped());
  graph.values[name].type = type;
  graph.nodes.push_back(cast_node(graph, made, name, type));
}

}  // namespace

bool is_other_float(ElementType type) {
  return type == ElementType::kDouble || type == ElementType::kFloat16 || type == ElementType::kBfloat16;
}

std::vector<ElementType> other_floats(const Graph& graph) {
  std::vector<ElementType> found;
  const auto see = [&](ElementType type) {
    if (is_other_float(type) && std::ranges::find(found, type) == found.end()) found.push_back(type);
  };
  for (const auto& [name, tensor] : graph.initializers) see(tensor.type());
  for (const auto& [name, value] : graph.values) see(value.type);
  for (const Node& node : graph.nodes) {
    for (const auto& [name, attribute] : node.attributes) {
      if (const auto* tensor = std::get_if<Tensor>(&attribute)) see(tensor->type());
    }
    if (const auto type = node.is("Cast") ? element_type_of(node.int_or("to", 0)) : std::nullopt) see(*type);
  }
  return found;
}

Graph to_float32(Graph graph, Ends ends) {
  if (other_floats(graph).empty()) return graph;
  graph = infer_shapes(sorted(std::move(graph)));
  auto inputs = types_of(graph, graph.inputs), outputs = types_of(graph, graph.outputs);
  if (ends == Ends::kFloat32) {
    inputs.clear();
    outputs.clear();
  }
  for (auto& [name, tensor] : graph.initializers) {
    if (is_other_float(tensor.type())) tensor = as_float32(tensor);
  }
  for (Node& node : graph.nodes) change_attributes(node);
  for (auto& [name, value] : graph.values) {
    if (is_other_float(value.type)) value.type = ElementType::kFloat;
  }
  graph = remove_identities(std::move(graph));  // Casts between types that are equal now
  for (const auto& [name, type] : inputs) keep_input(graph, name, type);
  for (const auto& [name, type] : outputs) keep_output(graph, name, type);
  return infer_shapes(tidy(std::move(graph)));
}

}  // namespace crumb::graph
