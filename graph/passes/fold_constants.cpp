#include <algorithm>
#include <set>

#include "graph/adapters.h"
#include "graph/edit.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/passes/passes.h"
#include "graph/sparse_products.h"

namespace crumb::graph {
namespace {

constexpr std::int64_t kMostGrowth = 4 << 20;  // bytes by which a folded constant may exceed its inputs

/// Whether folding would lose a bit width, or the node's output differs between runs.
bool must_stay(const Node& node) {
  if (is_opaque(node) || is_random(node) || (node.op == "Dropout" && node.has_input(2))) return true;
  if (node.domain == kQonnxDomain) return true;
  return node.domain == kOnnxDomain && (node.op == "QuantizeLinear" || node.op == "DequantizeLinear");
}

/// Shapes that are known become constants without their nodes.
void fold_shapes(Graph& graph) {
  for (const Node& node : graph.nodes) {
    if (auto shape = shape_made_by(graph, node))
      graph.initializers.insert_or_assign(node.outputs[0], std::move(*shape));
  }
  std::erase_if(graph.nodes, [&](const Node& node) {
    return !node.outputs.empty() && graph.initializers.contains(node.outputs[0]);
  });
}

/// One graph of all that constants alone decide, whose outputs are the new constants.
Graph constant_part(const Graph& graph, const Engine& engine) {
  Graph work{.name = "constants", .opsets = graph.opsets};
  std::set<std::string> made;
  const auto is_constant = [&](const std::string& value) {
    return value.empty() || made.contains(value) || graph.initializers.contains(value);
  };
  const std::set<std::size_t> sparse = sparse_makers(graph);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const bool is_adapter = !node.inputs.empty() && is_of_adapter(node.inputs[0]);
    if (must_stay(node) || is_adapter || sparse.contains(i) || !engine.knows(node)) continue;
    if (!std::ranges::all_of(node.inputs, is_constant)) continue;
    work.nodes.push_back(node);
    for (const std::string& value : node.outputs) {
      if (!value.empty()) made.insert(value);
    }
    for (const std::string& value : node.inputs) {
      if (const Tensor* constant = graph.constant(value)) work.initializers.emplace(value, *constant);
    }
  }
  work.outputs.assign(made.begin(), made.end());
  return work;
}

/// How many bytes more than its inputs a node's outputs take.
std::int64_t growth_of(const Graph& graph, const Node& node, const std::map<std::string, Tensor>& results) {
  const auto bytes_of = [&](const std::string& value) -> std::int64_t {
    if (const auto found = results.find(value); found != results.end()) {
      return static_cast<std::int64_t>(found->second.byte_count());
    }
    const Tensor* constant = graph.constant(value);
    return constant ? static_cast<std::int64_t>(constant->byte_count()) : 0;
  };
  std::int64_t growth = 0;
  for (const std::string& value : node.outputs) growth += bytes_of(value);
  for (const std::string& value : node.inputs) growth -= bytes_of(value);
  return growth;
}

}  // namespace

Graph fold_constants(Graph graph, const Engine& engine) {
  graph = infer_shapes(sorted(std::move(graph)));
  fold_shapes(graph);
  const Graph work = constant_part(graph, engine);
  if (work.nodes.empty()) return tidy(std::move(graph));
  std::map<std::string, Tensor> results;
  const std::vector<Tensor> computed = engine.prepare(work)->run({});
  for (std::size_t i = 0; i < computed.size(); ++i) results.emplace(work.outputs[i], computed[i]);
  std::set<std::string> folded;
  for (const Node& node : work.nodes) {
    if (node.op != "Constant" && growth_of(graph, node, results) > kMostGrowth) continue;
    for (const std::string& value : node.outputs) {
      if (value.empty()) continue;
      folded.insert(value);
      const Tensor& tensor = results.at(value);
      Value known = value_of(tensor);
      known.annotations = graph.values[value].annotations;
      graph.values[value] = std::move(known);
      graph.initializers.insert_or_assign(value, tensor);
    }
  }
  std::erase_if(graph.nodes, [&](const Node& node) {
    return std::ranges::any_of(node.outputs,
                               [&](const std::string& value) { return folded.contains(value); });
  });
  return tidy(std::move(graph));
}

}  // namespace crumb::graph
