#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "graph/edit.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/operator_traits.h"
#include "graph/passes/passes.h"

namespace crumb::graph {
namespace {

/// Whether every element of the constant is this number.
bool is_all(const Tensor* constant, float number) {
  if (!constant || info(constant->type()).kind == ElementKind::kComplex) return false;
  return std::ranges::all_of(constant->to_floats(), [&](float value) { return value == number; });
}

/// Whether input `i` has a static shape, equal to the output's.
bool keeps_shape(const Graph& graph, const Node& node, std::size_t i) {
  const Value *in = graph.find(node.inputs[i]), *out = graph.find(node.outputs[0]);
  return in && out && in->is_static() && out->is_static() && in->shape == out->shape;
}

/// Returns the input that equals the node's output; nothing where the node has an effect.
std::optional<std::size_t> same_input(const Graph& graph, const Node& node) {
  if (node.domain != kOnnxDomain || !node.has_input(0) || !node.has_output(0)) return {};
  const std::string& op = node.op;
  const auto only_output = [&] {
    return std::ranges::all_of(node.outputs.begin() + 1, node.outputs.end(), &std::string::empty);
  };
  if (!only_output()) return {};
  if (op == "Identity") return 0;
  if (op == "Dropout") {
    const Tensor* training = constant_input(graph, node, 2);
    const bool trains = node.version >= 12 ? node.has_input(2) && !is_all(training, 0)
                                           : node.version < 7 && node.int_or("is_test", 0) == 0;
    return !trains ? std::optional<std::size_t>(0) : std::nullopt;
  }
  if (op == "Cast") {
    const Value* in = graph.find(node.inputs[0]);
    const auto to = node.attributes.find("to");
    const auto* number = to == node.attributes.end() ? nullptr : std::get_if<std::int64_t>(&to->second);
    return in && number && in->type == element_type_of(*number) ? std::optional<std::size_t>(0)
                                                                : std::nullopt;
  }
  if (is_any(node, trait::kJoins) && node.inputs.size() == 1) return 0;
  if ((op == "Add" || op == "Mul") && node.has_input(1)) {
    const float neutral = op == "Add" ? 0.0F : 1.0F;
    if (is_all(constant_input(graph, node, 1), neutral) && keeps_shape(graph, node, 0)) return 0;
    if (is_all(constant_input(graph, node, 0), neutral) && keeps_shape(graph, node, 1)) return 1;
  }
  if (op == "Sub" && is_all(constant_input(graph, node, 1), 0) && keeps_shape(graph, node, 0)) return 0;
  if (op == "Div" && is_all(constant_input(graph, node, 1), 1) && keeps_shape(graph, node, 0)) return 0;
  if (op == "Transpose" && node.has("perm")) {
    const auto perm = node.ints_or("perm", {});
    std::vector<std::int64_t> same(perm.size());
    std::iota(same.begin(), same.end(), 0);
    if (perm == same) return 0;
  }
  if (is_any(node, trait::kIsItsInput) && keeps_shape(graph, node, 0)) return 0;
  return {};
}

}  // namespace

Graph remove_identities(Graph graph) {
  graph = infer_shapes(sorted(std::move(graph)));
  const std::set<std::string> outputs(graph.outputs.begin(), graph.outputs.end()),
      inputs(graph.inputs.begin(), graph.inputs.end());
  // Does what bypass() of graph/edit.h does, for all nodes in one sweep.
  std::map<std::string, std::string> same;     // removed values, and the values that they equal
  std::map<std::string, std::string> renamed;  // values that get the name of an output, and that name
  std::vector<Node> nodes;
  for (Node& node : graph.nodes) {
    for (std::string& input : node.inputs) {
      if (const auto found = same.find(input); found != same.end()) input = found->second;
    }
    if (const auto kept = same_input(graph, node)) {
      const std::string &before = node.inputs[*kept], &after = node.outputs[0];
      const bool keeps_name = outputs.contains(before) || inputs.contains(before) || graph.constant(before);
      if (!outputs.contains(after)) {
        same.emplace(after, before);
        continue;
      }
      if (!keeps_name && renamed.emplace(before, after).second) continue;
    }
    nodes.push_back(std::move(node));
  }
  for (Node& node : nodes) {
    for (auto* names : {&node.inputs, &node.outputs}) {
      for (std::string& name : *names) {
        if (const auto found = renamed.find(name); found != renamed.end()) name = found->second;
      }
    }
  }
  graph.nodes = std::move(nodes);
  return tidy(std::move(graph));
}

}  // namespace crumb::graph
