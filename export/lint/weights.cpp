// Rules about quantizers of constants.
#include <algorithm>
#include <array>

#include "base/files/text.h"
#include "export/lint/checks.h"
#include "export/lint/quantized.h"
#include "graph/passes/passes.h"

namespace crumb::exporting::checks {
namespace {

constexpr auto kTakenByFinn = std::to_array<std::string_view>(
    {"Mul", "Div", "Conv", "MatMul", "Gather", "ConvTranspose", "Add", "Sub"});
constexpr auto kTakenByHls4ml = std::to_array<std::string_view>(
    {"Mul", "Div", "Conv", "MatMul", "Add", "Sub", "BatchNormalization", "PRelu", "Sum"});

std::string shape_text(const std::vector<std::int64_t>& shape) { return graph::text_of(std::span(shape)); }

/// Where a constant's use as the data of quantizers begins; the others share it.
bool is_later_use(const Subject& subject, const Node& node) {
  for (const std::size_t i : subject.links().consumers(node.inputs[kData])) {
    const Node& other = subject.nodes()[i];
    if (&other == &node) return false;
    if (is_weight(subject.graph(), other) && input_of(other, kData) == input_of(node, kData)) return true;
  }
  return false;
}

/// Whether fold_transposes can take a Transpose behind this quantizer.
bool can_fold(const Subject& subject, const Node& node) {
  const std::size_t rank = subject.constant(node, kData)->shape().size();
  if (subject.links().is_output(output_of(node))) return false;
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    const Tensor* parameter = subject.constant(node, i);
    if (!parameter || (parameter->size() != 1 && parameter->shape().size() != rank)) return false;
  }
  return true;
}

/// Only this axis (counted from the end where it is negative) differs from 1.
bool only_axis(const std::vector<std::int64_t>& shape, std::int64_t axis) {
  const auto kept =
      static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(shape.size()) : axis);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i != kept && shape[i] != 1) return false;
  }
  return true;
}

/// What a weight's scale of several numbers should be for this consumer; empty where it is good.
std::string expected_scale(const Subject& subject, const Node& consumer,
                           const std::vector<std::int64_t>& scale, bool is_uniform) {
  const bool finn = subject.is_for(Profile::kFinn);
  if (consumer.op == "Conv") {
    return only_axis(scale, 0) ? "" : "one number, or one for each output channel, [M, 1, ...]";
  }
  if (consumer.op == "ConvTranspose") return finn ? "one number" : "";
  if (consumer.op != "MatMul") return "";
  if (!finn) return is_uniform ? "" : "one number: hls4ml drops those of the columns of a MatMul";
  return only_axis(scale, -1) ? "" : "one number, or one for each column, [1, N]";
}

}  // namespace

void weight_forks(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    if (!is_weight(subject.graph(), node) || !node.has_output(0)) continue;
    const std::size_t uses = subject.links().consumers(node.outputs[0]).size();
    if (subject.links().is_output(output_of(node))) {
      report.add(node, "the quantized weight is an output of the graph", false);
    } else if (uses > 1) {
      report.add(node, "the quantized weight is used " + std::to_string(uses) + " times, expected once");
    }
    if (is_later_use(subject, node)) {
      report.add(node, "it quantizes " + quote_text(node.inputs[kData]) +
                           ", which another node quantizes too, expected a weight of its own");
    }
  }
}

Graph copy_weights(Graph graph, Profile) {
  std::vector<Node> nodes;
  for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
    const Node node = graph.nodes[at];
    nodes.push_back(node);
    if (!is_weight(graph, node) || !node.has_output(0)) continue;
    if (std::ranges::find(graph.outputs, node.outputs[0]) != graph.outputs.end()) continue;
    bool first = true;
    for (Node& consumer : graph.nodes) {
      for (std::string& input : consumer.inputs) {
        if (input != node.outputs[0]) continue;
        if (std::exchange(first, false)) continue;
        Node copy = node;
        copy.name = graph.unused_node_name(node.name + "_copy");
        while (std::ranges::find(nodes, copy.name, &Node::name) != nodes.end()) copy.name += '_';
        copy.outputs[0] = graph::add_value(graph, node.outputs[0] + "_copy", graph.values[node.outputs[0]]);
        input = copy.outputs[0];
        nodes.push_back(std::move(copy));
      }
    }
  }
  graph.nodes = std::move(nodes);
  std::set<std::string> seen;
  for (Node& node : graph.nodes) {
    if (!is_weight(graph, node) || seen.insert(node.inputs[kData]).second) continue;
    give_constant(graph, node, kData, *constant_input(graph, node, kData));
    seen.insert(node.inputs[kData]);
  }
  return sorted(std::move(graph));
}

void weight_consumers(const Subject& subject, Report& report) {
  const bool finn = subject.is_for(Profile::kFinn);
  for (const Node& node : subject.nodes()) {
    if (!is_weight(subject.graph(), node)) continue;
    if (finn && uniform(subject.constant(node, kScale)) == 1.0F) continue;
    for (const Node* consumer : subject.consumers(node)) {
      if (consumer->is("Gemm") || consumer->is("Transpose")) continue;  // rules of their own
      const bool taken = finn ? std::ranges::find(kTakenByFinn, consumer->op) != kTakenByFinn.end()
                              : std::ranges::find(kTakenByHls4ml, consumer->op) != kTakenByHls4ml.end();
      if (taken) continue;
      report.add(node, "the quantized weight goes to " + text_of(*consumer) +
                           ", expected a layer that can take its scale: MatMul, Conv, Mul, Div, Add, Sub");
    }
  }
}

void weight_transposes(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    const Node* source = node.is("Transpose") ? subject.source(node, 0) : nullptr;
    if (!source || !is_weight(subject.graph(), *source)) continue;
    report.add(node,
               "it transposes the quantized weight of " + text_of(*source) +
                   ", expected the weight transposed in the file",
               can_fold(subject, *source));
  }
}

Graph fold_weight_transposes(Graph graph, Profile profile) {
  return graph::fold_transposes(copy_weights(std::move(graph), profile));
}

void weight_scales(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    const Tensor* scale = is_weight(subject.graph(), node) ? subject.constant(node, kScale) : nullptr;
    if (!scale || scale->size() < 2) continue;
    const std::size_t rank = subject.constant(node, kData)->shape().size();
    const bool is_uniform = uniform(scale).has_value();
    for (const Node* consumer : subject.consumers(node)) {
      const std::string expected =
          expected_scale(subject, *consumer, filled_up(scale->shape(), rank), is_uniform);
      if (expected.empty()) continue;
      report.add(node,
                 "its scale has shape " + shape_text(scale->shape()) + " before " + text_of(*consumer) +
                     ", expected " + expected,
                 is_uniform);
    }
  }
}

Graph use_common_scale(Graph graph, Profile) {
  for (Node& node : graph.nodes) {
    const Tensor* scale = is_integer_quantizer(node) ? constant_input(graph, node, kScale) : nullptr;
    const auto value = uniform(scale);
    if (value && scale->size() > 1) give_constant(graph, node, kScale, Tensor::scalar(*value));
  }
  return graph;
}

void weight_rounding(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    if (!is_quant(node) || !is_weight(subject.graph(), node)) continue;
    const std::string mode = node.text_or("rounding_mode", "ROUND");
    if (mode == "ROUND" || mode == "round" || mode == "HALF_EVEN") continue;
    report.add(node,
               "it rounds a weight with " + quote_text(mode) +
                   ", expected the rounded weight itself and ROUND, which keeps it",
               rounded_again(subject.graph(), node).has_value());
  }
}

Graph round_weights(Graph graph, Profile) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (!is_quant(node) || !is_weight(graph, node)) continue;
    const std::string mode = node.text_or("rounding_mode", "ROUND");
    if (mode == "ROUND" || mode == "round" || mode == "HALF_EVEN") continue;
    if (const auto same = rounded_again(graph, node)) replace_constant(graph, i, *same);
  }
  return graph;
}

}  // namespace crumb::exporting::checks
