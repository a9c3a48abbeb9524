// Rules about matrix products, convolutions and what is added to them.
#include <algorithm>

#include "export/lint/checks.h"
#include "formats/io/text.h"
#include "models/graph/passes/passes.h"

namespace crumb::exporting::checks {
namespace {

bool is_last(const Node& node) { return node.domain == kChannelsLastDomain; }

/// A constant, or a quantized one.
bool is_constant(const Subject& subject, const Node& node, std::size_t i) {
  if (subject.constant(node, i)) return true;
  const Node* source = subject.source(node, i);
  return source && is_weight(subject.graph(), *source);
}

/// A channels-last bias broadcasts as it is: channels are the last axis.
Graph take_out_last_biases(Graph graph) {
  return for_each_node(std::move(graph), [](Graph& all, std::size_t i) {
    const Node& node = all.nodes[i];
    if (!is_convolution(node) || !is_last(node) || !node.has_input(2) || !node.has_output(0)) return;
    const std::string output = all.nodes[i].outputs[0], bias = all.nodes[i].inputs[2];
    const Value known = all.values[output];
    Node add{.name = all.unused_node_name(all.nodes[i].name + "_bias"),
             .op = "Add",
             .version = all.opset(),
             .outputs = {output}};
    all.nodes[i].outputs[0] = graph::add_value(all, output + "_no_bias", known);
    all.nodes[i].inputs.resize(2);
    add.inputs = {all.nodes[i].outputs[0], bias};
    all.nodes.push_back(std::move(add));
  });
}

}  // namespace

void gemms(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    if (!node.is("Gemm")) continue;
    const Value* made = node.has_output(0) ? subject.graph().find(node.outputs[0]) : nullptr;
    const bool plain = node.float_or("alpha", 1) == 1 && node.float_or("beta", 1) == 1;
    report.add(node, "found Gemm, expected MatMul and Add",
               node.has_input(0) && node.has_input(1) && made &&
                   (plain || made->type == graph::ElementType::kFloat));
  }
}

Graph split_gemms(Graph graph, Profile profile) {
  // A weight that several layers share is transposed for each of them.
  return graph::fold_transposes(graph::gemm_to_matmul(copy_weights(std::move(graph), profile)));
}

void conv_biases(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    if (!is_convolution(node) || !node.has_input(2)) continue;
    const Node* source = subject.source(node, 2);
    const bool is_quantized = source && is_qonnx_quantizer(*source);
    if (subject.is_for(Profile::kQonnx) && !is_quantized) continue;
    report.add(node,
               std::string("it has a ") + (is_quantized ? "quantized " : "") +
                   "bias, expected a convolution without one and an Add behind it",
               is_last(node) || subject.graph().rank_of(input_of(node, 1)).value_or(0) >= 3);
  }
}

Graph take_out_biases(Graph graph, Profile) {
  return graph::extract_conv_bias(take_out_last_biases(std::move(graph)));
}

void constant_operands(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    const bool commutes = node.is("Add") || node.is("Mul");
    if ((!commutes && !node.is("MatMul")) || node.inputs.size() != 2) continue;
    if (!is_constant(subject, node, 0) || is_constant(subject, node, 1)) continue;
    report.add(node, "its first input is a constant and its second is not, expected the constant second",
               commutes && node.version >= 7);
  }
}

Graph swap_operands(Graph graph, Profile profile) {
  std::vector<std::size_t> found;
  const Subject subject(graph, profile);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if ((node.is("Add") || node.is("Mul")) && node.version >= 7 && node.inputs.size() == 2 &&
        is_constant(subject, node, 0) && !is_constant(subject, node, 1)) {
      found.push_back(i);
    }
  }
  for (const std::size_t i : found) std::swap(graph.nodes[i].inputs[0], graph.nodes[i].inputs[1]);
  return graph;
}

}  // namespace crumb::exporting::checks
