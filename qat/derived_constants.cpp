#include "qat/derived_constants.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "graph/quantize/operators.h"

namespace crumb::qat {
namespace {

using graph::Graph;
using graph::Node;
using libtorch::GraphModule;

bool is_parameter(const Graph& graph, const std::string& value) {
  const graph::Tensor* constant = graph.constant(value);
  return constant && graph::is_float(constant->type()) && constant->rank() > 0;
}

/// Returns the parameters from which each constant that a node makes is computed.
std::map<std::string, std::set<std::string>> parameters_behind(const Graph& graph) {
  const graph::Constants constants(graph);
  std::map<std::string, std::set<std::string>> behind;
  for (const Node& node : graph.nodes) {
    if (node.outputs.empty() || !constants.contains(node.outputs[0])) continue;
    std::set<std::string> all;
    for (const std::string& input : node.inputs) {
      if (is_parameter(graph, input)) all.insert(input);
      if (const auto found = behind.find(input); found != behind.end()) all.merge(std::set(found->second));
    }
    for (const std::string& output : node.outputs) behind[output] = all;
  }
  return behind;
}

/// Returns the part of the graph that computes these constants from initializers.
Graph part_that_makes(const Graph& graph, const std::set<std::string>& wanted) {
  const graph::Constants constants(graph);
  Graph part{.name = "derived",
             .outputs = {wanted.begin(), wanted.end()},
             .opsets = graph.opsets,
             .metadata = graph.metadata};
  std::set<std::string> needed = wanted;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (std::ranges::none_of(node->outputs, [&](const auto& value) { return needed.contains(value); }))
      continue;
    needed.insert(node->inputs.begin(), node->inputs.end());
    part.nodes.push_back(*node);
  }
  std::ranges::reverse(part.nodes);
  for (const std::string& value : needed) {
    if (const graph::Tensor* constant = graph.constant(value)) part.initializers[value] = *constant;
    if (const graph::Value* known = graph.find(value)) part.values[value] = *known;
  }
  return part;
}

}  // namespace

DerivedConstants::DerivedConstants(const Graph& original, const Graph& prepared) {
  std::set<std::string> wanted;
  for (const auto& [value, sources] : parameters_behind(original)) {
    const graph::Tensor* folded = prepared.constant(value);
    if (folded && !sources.empty() && graph::is_float(folded->type())) wanted.insert(value);
  }
  if (wanted.empty()) return;
  GraphModule all(part_that_makes(original, wanted));
  const torch::NoGradGuard no_gradients;
  const std::vector<libtorch::TypedTensor> made = all.run({});
  std::size_t i = 0;
  for (const std::string& value : std::set(wanted)) {
    // It may have changed since: a batch norm that was folded into it changes it, for one.
    const at::Tensor folded = libtorch::to_typed(*prepared.constant(value)).tensor;
    if (!at::equal(made[i++].tensor, folded)) wanted.erase(value);
  }
  if (wanted.empty()) return;
  const Graph part = part_that_makes(original, wanted);
  module_ = std::make_shared<GraphModule>(part);
  const auto behind = parameters_behind(original);
  for (const std::string& value : wanted) sources_[value] = behind.at(value);
  names_ = wanted;
  for (const auto& [name, constant] : part.initializers) {
    if (prepared.constant(name) && is_parameter(original, name)) {
      names_.insert(name);
      sources_[name] = {name};
    }
  }
}

libtorch::Plan::Constants DerivedConstants::values() const {
  libtorch::Plan::Constants values;
  if (!module_) return values;
  const std::vector<libtorch::TypedTensor> made = module_->run({});
  const std::vector<std::string>& outputs = module_->graph().outputs;
  for (std::size_t i = 0; i < made.size(); ++i) values[outputs[i]] = made[i];
  for (const std::string& name : names_) {
    if (!values.contains(name)) values[name] = {module_->constant(name), graph::ElementType::kFloat};
  }
  return values;
}

}  // namespace crumb::qat
