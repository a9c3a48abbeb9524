#include <algorithm>
#include <cmath>
#include <set>

#include "graph/edit.h"
#include "graph/facts/constant_values.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/passes/passes.h"

namespace crumb::graph {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 26;  // of a result; each takes 16 bytes meanwhile

bool is_linear_quantizer(const Node& node) {
  return node.op == "QuantizeLinear" || node.op == "DequantizeLinear";
}

bool stays(const Node& node) {
  return node.domain != kOnnxDomain || is_linear_quantizer(node) || is_opaque(node) ||
         node.outputs.size() != 1 || node.outputs[0].empty();
}

/// Returns the value in the graph's type; nothing for types to which the numbers cannot be converted exactly.
std::optional<Tensor> tensor_of(const ConstantValue& constant, ElementType type) {
  if (type == ElementType::kFloat) {
    const std::vector<float> values(constant.values.begin(), constant.values.end());
    return Tensor::floats(constant.shape, values);
  }
  if (!is_integer(type) || type == ElementType::kUint64) return {};
  std::vector<std::int64_t> values;
  for (const double value : constant.values) {
    if (!(std::fabs(value) < 0x1p53) || std::trunc(value) != value) return {};
    values.push_back(static_cast<std::int64_t>(value));
  }
  return Tensor::ints(type, constant.shape, values);
}

bool is_small(const Graph& graph, const std::string& value) {
  const Value* known = graph.find(value);
  if (!known || !known->is_static()) return true;
  std::vector<std::int64_t> sizes;
  for (const Dim& dim : *known->shape) sizes.push_back(dim.size);
  const auto count = count_elements(sizes);
  return count.ok() && count.value() <= kMostElements;
}

/// Replaces nodes of constants by what they compute, where is_wanted(value, type).
template <class IsWanted>
Graph folded(Graph graph, const IsWanted& is_wanted) {
  graph = infer_shapes(sorted(std::move(graph)));
  const std::set<std::string> outputs(graph.outputs.begin(), graph.outputs.end());
  std::map<std::string, Tensor> found;
  {
    const ConstantValues constants(graph);
    std::set<std::string> kept;  // quantizers' outputs, and what is computed from them
    for (const Node& node : graph.nodes) {
      const bool is_kept = stays(node) || std::ranges::any_of(node.inputs, [&](const std::string& value) {
                             return kept.contains(value);
                           });
      if (is_kept) {
        kept.insert(node.outputs.begin(), node.outputs.end());
        kept.erase("");
        continue;
      }
      const std::string& output = node.outputs[0];
      const Value* known = graph.find(output);
      if (!known || !is_wanted(output, known->type) || outputs.contains(output)) continue;
      if (!constants.is_constant(output) || !is_small(graph, output)) continue;
      const auto made = constants.find(output);
      if (!made) continue;
      if (auto tensor = tensor_of(*made, known->type)) found.emplace(output, std::move(*tensor));
    }
  }
  std::erase_if(graph.nodes, [&](const Node& node) {
    return node.outputs.size() == 1 && found.contains(node.outputs[0]);
  });
  for (auto& [name, tensor] : found) {
    graph.values[name] = value_of(tensor);
    graph.initializers.insert_or_assign(name, std::move(tensor));
  }
  return tidy(infer_shapes(std::move(graph)));
}

}  // namespace

Graph plain_constants(Graph graph) {
  const std::set<std::string> outputs(graph.outputs.begin(), graph.outputs.end());
  std::erase_if(graph.nodes, [&](const Node& node) {
    if (!node.has_output(0) || outputs.contains(node.outputs[0])) return false;
    auto constant = constant_of(node);
    if (!constant) return false;
    Value known = value_of(*constant);
    known.annotations = graph.values[node.outputs[0]].annotations;
    graph.values[node.outputs[0]] = std::move(known);
    graph.initializers.emplace(node.outputs[0], std::move(*constant));
    return true;
  });
  return graph;
}

Graph fold_known(Graph graph) {
  return folded(std::move(graph), [](const std::string&, ElementType type) {
    return type == ElementType::kFloat || type == ElementType::kInt64;
  });
}

Graph fold_parameters(Graph graph) {
  std::set<std::string> parameters;
  for (const Node& node : graph.nodes) {
    if (!is_linear_quantizer(node)) continue;
    for (std::size_t i = 1; i < node.inputs.size(); ++i)
      if (node.has_input(i) && !graph.constant(node.inputs[i])) parameters.insert(node.inputs[i]);
  }
  if (parameters.empty()) return graph;
  return folded(std::move(graph),
                [&](const std::string& value, ElementType) { return parameters.contains(value); });
}

}  // namespace crumb::graph
