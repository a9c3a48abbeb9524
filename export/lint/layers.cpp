// Rules about matrix products, convolutions and what is added to them.
#include <algorithm>
#include <map>
#include <set>

#include "base/files/text.h"
#include "export/lint/checks.h"
#include "graph/passes/passes.h"

namespace crumb::exporting::checks {
namespace {

/// A constant, or a quantized one.
bool is_constant(const Subject& subject, const Node& node, std::size_t i) {
  if (subject.constant(node, i)) return true;
  const Node* source = subject.source(node, i);
  return source && is_weight(subject.graph(), *source);
}

/// Whether the weight, if it is quantized, has the same scale for all channels.
bool has_one_scale(const Subject& subject, const Node& node) {
  const Node* quantizer = subject.source(node, 1);
  return !quantizer || !is_integer_quantizer(*quantizer) || uniform(subject.constant(*quantizer, kScale));
}

/// hls4ml moves scales that differ behind the convolution, and a bias in it does not follow.
bool bias_is_outside(const Subject& subject, const Node& node) {
  return convolves(node) && node.has_input(2) &&
         !(subject.is_for(Profile::kHls4ml) && has_one_scale(subject, node));
}

/// A channels-last bias broadcasts as it is: channels are the last axis.
Graph take_out_last_biases(Graph graph, Profile profile) {
  std::set<std::string> outside;  // names of nodes, which name-node has made differ
  const Subject subject(graph, profile);
  for (const Node& node : graph.nodes) {
    if (is_last(node) && node.has_output(0) && bias_is_outside(subject, node)) outside.insert(node.name);
  }
  return for_each_node(std::move(graph), [&](Graph& all, std::size_t i) {
    if (!convolves(all.nodes[i]) || !outside.contains(all.nodes[i].name)) return;
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

/// Which operand of a sum or product of two is the constant; nothing where neither is, or both are.
std::optional<std::size_t> constant_operand(const Subject& subject, const Node& node) {
  const bool is_binary = node.is("Add") || node.is("Sub") || node.is("Mul") || node.is("Div");
  if (!is_binary || node.inputs.size() != 2) return {};
  const bool first = is_constant(subject, node, 0), second = is_constant(subject, node, 1);
  if (first == second) return {};
  return first ? 0 : 1;
}

/// How many axes of a constant operand reach the first axis of the data, which hls4ml does not have.
std::size_t axes_of_batch(const Graph& graph, const Node& node, std::size_t constant) {
  const auto data = graph.rank_of(node.inputs[1 - constant]), rank = graph.rank_of(node.inputs[constant]);
  return data && rank && *data >= 1 && *rank >= *data ? *rank + 1 - *data : 0;
}

/// An initializer without its first axes; nothing where they are longer than 1, or it is none.
std::optional<Tensor> without_axes(const Graph& graph, const std::string& value, std::size_t count) {
  const Tensor* constant = graph.constant(value);
  if (!constant || constant->shape().size() < count) return {};
  const auto behind = constant->shape().begin() + static_cast<std::ptrdiff_t>(count);
  if (!std::all_of(constant->shape().begin(), behind, [](std::int64_t size) { return size == 1; })) return {};
  return constant->reshaped({behind, constant->shape().end()});
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
  const bool is_hls4ml = subject.is_for(Profile::kHls4ml);
  for (const Node& node : subject.nodes()) {
    if (!bias_is_outside(subject, node)) continue;
    const Node* source = subject.source(node, 2);
    const bool is_quantized = source && is_qonnx_quantizer(*source);
    if (subject.is_for(Profile::kQonnx) && !is_quantized) continue;
    report.add(node,
               std::string("it has a ") + (is_quantized ? "quantized " : "") + "bias" +
                   (is_hls4ml ? " and a weight of several scales" : "") +
                   ", expected a convolution without one and an Add behind it",
               is_last(node) || (!is_hls4ml && subject.graph().rank_of(input_of(node, 1)).value_or(0) >= 3));
  }
}

Graph take_out_biases(Graph graph, Profile profile) {
  graph = take_out_last_biases(std::move(graph), profile);
  return profile == Profile::kHls4ml ? graph : graph::extract_conv_bias(std::move(graph));
}

void batch_constants(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    const auto operand = constant_operand(subject, node);
    const std::size_t extra = operand ? axes_of_batch(subject.graph(), node, *operand) : 0;
    if (extra == 0) continue;
    const Shape shape = subject.graph().shape_of(node.inputs[*operand]).value();
    report.add(node, "its constant has the shape " + text_of(shape) + ", expected no axis for the batch",
               std::all_of(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(extra),
                           [](const graph::Dim& dim) { return dim.size == 1; }));
  }
}

Graph drop_batch_axes(Graph graph, Profile profile) {
  std::map<std::size_t, std::size_t> operands;
  const Subject subject(graph, profile);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (const auto operand = constant_operand(subject, graph.nodes[i])) operands[i] = *operand;
  }
  return for_each_node(std::move(graph), [&](Graph& all, std::size_t i) {
    const auto found = operands.find(i);
    if (found == operands.end()) return;
    const std::size_t extra = axes_of_batch(all, all.nodes[i], found->second);
    const std::string constant = all.nodes[i].inputs[found->second];
    if (extra == 0) return;
    if (const auto shorter = without_axes(all, constant, extra)) {
      give_constant(all, all.nodes[i], found->second, *shorter);
      return;
    }
    const auto source =
        std::ranges::find_if(all.nodes, [&](const Node& node) { return output_of(node) == constant; });
    if (source == all.nodes.end() || !is_weight(all, *source)) return;
    const std::size_t rank = constant_input(all, *source, kData)->rank();
    Node quantizer = *source;
    for (std::size_t k = kData; k < std::min<std::size_t>(quantizer.inputs.size(), kBits); ++k) {
      const Tensor* parameter = constant_input(all, quantizer, k);
      if (!parameter || parameter->rank() + extra <= rank) continue;
      const auto shorter = without_axes(all, quantizer.inputs[k], parameter->rank() + extra - rank);
      if (!shorter) return;
      give_constant(all, quantizer, k, *shorter);
    }
    quantizer.name = all.unused_node_name(quantizer.name + "_flat");
    quantizer.outputs = {graph::add_value(all, constant + "_flat", {.type = graph::ElementType::kFloat})};
    all.nodes[i].inputs[found->second] = quantizer.outputs[0];
    all.nodes.push_back(std::move(quantizer));
  });
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
