// Rules about values that a node may leave out, and how files say so: qonnx executes every node by itself,
// takes each input and output by its name, and gives constants as inputs.
#include <algorithm>

#include "export/lint/checks.h"

namespace crumb::exporting::checks {
namespace {

/// Inputs of a Resize that are constants without elements, where the operator set lets them be left out.
std::vector<std::size_t> empty_inputs(const Graph& graph, const Node& node) {
  std::vector<std::size_t> found;
  if (!node.is("Resize") || node.version < 13) return found;
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    const Tensor* constant = constant_input(graph, node, i);
    if (constant && constant->size() == 0) found.push_back(i);
  }
  return found;
}

/// Before operator set 13 a Resize by sizes must have scales, too, and none of them: that cannot be said to
/// qonnx.
bool has_both(const Graph& graph, const Node& node) {
  if (!node.is("Resize") || node.version < 11 || node.version >= 13 || !node.has_input(3)) return false;
  const Tensor* sizes = constant_input(graph, node, 3);
  return !sizes || sizes->size() > 0;
}

bool leaves_out(const Node& node) {
  return std::ranges::any_of(node.outputs, [](const std::string& output) { return output.empty(); });
}

}  // namespace

void optional_inputs(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    for (const std::size_t i : empty_inputs(subject.graph(), node))
      report.add(node, "its input " + std::to_string(i) + " is a constant without elements, expected none",
                 true);
    if (has_both(subject.graph(), node))
      report.add(node,
                 "it resizes to sizes in operator set " + std::to_string(node.version) +
                     ", where qonnx gives it scales, too; expected operator set 13 or later",
                 false);
  }
}

void optional_outputs(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    if (leaves_out(node)) report.add(node, "an output that it leaves out has an empty name");
  }
}

Graph leave_out_inputs(Graph graph, Profile) {
  return for_each_node(std::move(graph), [](Graph& all, std::size_t i) {
    for (const std::size_t empty : empty_inputs(all, all.nodes[i])) all.nodes[i].inputs[empty].clear();
    auto& inputs = all.nodes[i].inputs;
    while (all.nodes[i].is("Resize") && !inputs.empty() && inputs.back().empty()) inputs.pop_back();
  });
}

Graph name_outputs(Graph graph, Profile) {
  return for_each_node(std::move(graph), [](Graph& all, std::size_t i) {
    // Which outputs a Split has says how many parts it makes.
    auto& outputs = all.nodes[i].outputs;
    while (outputs.size() > 1 && outputs.back().empty() && all.nodes[i].op != "Split") outputs.pop_back();
    for (std::size_t k = 0; k < all.nodes[i].outputs.size(); ++k) {
      if (!all.nodes[i].outputs[k].empty()) continue;
      const std::string name = all.unused_value_name(all.nodes[i].name + "_unused");
      all.nodes[i].outputs[k] = name;
      all.values[name];
    }
  });
}

}  // namespace crumb::exporting::checks
