// Rules about a graph as a whole: names, shapes, types, operators and operator sets.
#include <algorithm>
#include <array>
#include <map>

#include "base/files/text.h"
#include "export/lint/checks.h"
#include "graph/choose.h"
#include "graph/onnx/wire/domains.h"
#include "graph/passes/to_float32.h"

namespace crumb::exporting::checks {
namespace {

using graph::ElementType;

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

constexpr auto kControlFlow = std::to_array<std::string_view>({"If", "Loop", "Scan"});
constexpr auto kChannelsLast = std::to_array<std::string_view>({"Conv", "MaxPool", "BatchNormalization"});
constexpr auto kMoreOfQonnx = std::to_array<std::string_view>({"DebugMarker", "GenericPartition"});
constexpr auto kQuantizedOfOnnx = std::to_array<std::string_view>(
    {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul",
     "ConvInteger", "MatMulInteger", "QLinearAdd", "QLinearConcat", "QGemm", "QLinearLeakyRelu"});
constexpr auto kDomainsOfOnnxruntime = std::to_array<std::string_view>(
    {"", "ai.onnx.ml", "com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc"});
/// What hls4ml's parser has a handler for; other rules speak of Gemm and the average pools.
constexpr auto kOfHls4ml = std::to_array<std::string_view>({"Conv",
                                                            "MatMul",
                                                            "Gemm",
                                                            "Relu",
                                                            "Tanh",
                                                            "Sigmoid",
                                                            "LeakyRelu",
                                                            "Elu",
                                                            "Selu",
                                                            "PRelu",
                                                            "Softmax",
                                                            "Softsign",
                                                            "Softplus",
                                                            "ThresholdedRelu",
                                                            "Add",
                                                            "Sub",
                                                            "Mul",
                                                            "Div",
                                                            "Sum",
                                                            "Max",
                                                            "Min",
                                                            "Concat",
                                                            "Transpose",
                                                            "MaxPool",
                                                            "Reshape",
                                                            "Flatten",
                                                            "BatchNormalization",
                                                            "AveragePool",
                                                            "Resize",
                                                            "Pad",
                                                            "Dropout",
                                                            "Identity",
                                                            "GlobalAveragePool",
                                                            "GlobalMaxPool"});

/// What finn-plus takes in and has no hardware layer for (step_convert_to_hw), so that its build ends later.
constexpr auto kUnmappedByFinn = std::to_array<std::string_view>(
    {"Pad", "Clip", "LeakyRelu", "PRelu", "Elu", "HardSigmoid", "ThresholdedRelu", "Softplus", "Softsign"});

/// What an operator is, as far as the tools ask.
struct Kind {
  explicit Kind(const Node& node)
      : has_graphs(std::ranges::any_of(
            node.attributes,
            [](const auto& entry) { return std::holds_alternative<graph::Opaque>(entry.second); })),
        is_control_flow(graph::is_choose(node) ||
                        (node.domain.empty() && (is_one_of(kControlFlow, node.op) || has_graphs))),
        of_qonnx(node.domain == kQonnxDomain &&
                 (graph::is_qonnx_operator(node.op) || is_one_of(kMoreOfQonnx, node.op))),
        has_channels_last(node.domain == kChannelsLastDomain && is_one_of(kChannelsLast, node.op)),
        is_standard(node.domain.empty() || node.domain == "ai.onnx.ml") {}

  bool has_graphs, is_control_flow, of_qonnx, has_channels_last, is_standard;
};

constexpr const char* kNoControlFlow = "control flow is not supported";

std::string refused_by_onnxruntime(const Subject&, const Node& node) {
  if (graph::is_choose(node)) return "";  // files have an If
  if (is_one_of(kDomainsOfOnnxruntime, node.domain)) return "";
  return "onnxruntime has no operators of domain " + quote_text(node.domain);
}

std::string refused_by_qonnx(const Subject&, const Node& node) {
  const Kind kind(node);
  if (kind.is_control_flow) return kNoControlFlow;
  if (kind.of_qonnx || kind.has_channels_last || kind.is_standard) return "";
  return "qonnx has no operator " + quote_text(node.op) + " in domain " + quote_text(node.domain);
}

std::string refused_by_finn(const Subject& subject, const Node& node) {
  const Kind kind(node);
  if (kind.is_control_flow) return kNoControlFlow;
  if (node.op == "FloatQuant" && kind.of_qonnx) return "FINN has no FloatQuant";
  if (node.domain.empty() && is_one_of(kQuantizedOfOnnx, node.op))
    return "FINN has no " + node.op + "; it takes Quant";
  if (node.domain.empty() && is_one_of(kUnmappedByFinn, node.op))
    return "FINN has no hardware layer for " + node.op;
  if (node.is("Add") && node.inputs.size() == 2 && node.inputs[0] == node.inputs[1] &&
      !subject.constant(node, 0))
    return "FINN adds a value to itself wrongly; expected a Mul by 2";
  if (kind.has_channels_last)
    return "FINN takes convolutions and pools with channels on axis 1, of ONNX's own domain";
  if (kind.of_qonnx || kind.is_standard || node.domain.starts_with("finn.custom_op.")) return "";
  return "FINN has no operator " + quote_text(node.op) + " in domain " + quote_text(node.domain);
}

std::string refused_by_hls4ml(const Subject& subject, const Node& node) {
  const Kind kind(node);
  if (kind.is_control_flow) return kNoControlFlow;
  if (node.is("MatMul") && subject.graph().rank_of(input_of(node, 0)).value_or(2) > 2)
    return "hls4ml takes a MatMul of two axes, found " +
           std::to_string(*subject.graph().rank_of(input_of(node, 0)));
  if (is_integer_quantizer(node) || kind.has_channels_last) return "";
  if (node.domain.empty() && is_one_of(kOfHls4ml, node.op)) return "";
  return "hls4ml's parser has no operator " + quote_text(node.op);
}

/// Why a tool does not take an operator; empty where it does.
struct Consumer {
  Profile profile;
  std::string (*refusal)(const Subject&, const Node&);
};
constexpr Consumer kConsumers[] = {{Profile::kOnnxruntime, refused_by_onnxruntime},
                                   {Profile::kQonnx, refused_by_qonnx},
                                   {Profile::kFinn, refused_by_finn},
                                   {Profile::kHls4ml, refused_by_hls4ml}};

/// Version 1, or 2 where a Trunc has six inputs; nothing where Truncs of both kinds stand in one graph.
std::optional<std::int64_t> version_needed(const Graph& graph) {
  std::optional<std::int64_t> needed;
  for (const Node& node : graph.nodes) {
    if (!node.is("Trunc", kQonnxDomain)) continue;
    const std::int64_t version = node.inputs.size() > 5 ? 2 : 1;
    if (needed && *needed != version) return {};
    needed = version;
  }
  return needed.value_or(1);
}

}  // namespace

void static_shapes(const Subject& subject, Report& report) {
  const Graph& graph = subject.graph();
  const auto fault = [&](const std::string& name) -> std::string {
    const Value* known = graph.find(name);
    if (known && known->is_static()) return "";
    return known && known->shape ? "its shape is " + text_of(*known->shape) + ", expected numbers only"
                                 : "its shape is not known";
  };
  bool inputs_known = true;
  for (const std::string& input : graph.inputs) {
    if (const std::string text = fault(input); !text.empty()) {
      inputs_known = false;
      report.add(input, text);
    }
  }
  if (!inputs_known) return;  // the others follow from them
  for (const Node& node : graph.nodes) {
    for (const std::string& output : node.outputs) {
      if (output.empty()) continue;
      if (const std::string text = fault(output); !text.empty()) report.add(output, text);
    }
  }
}

Graph infer(Graph graph, Profile) { return graph; }  // fix() has inferred them

void float32(const Subject& subject, Report& report) {
  const Graph& graph = subject.graph();
  // qonnx executes a Cast at an end as any node; FINN and hls4ml have none.
  const auto is_cast = [](const Node& node) { return node.is("Cast"); };
  const auto is_cast_input = [&](const std::string& input) {
    const auto consumers = subject.links().consumers(input);
    return subject.is_for(Profile::kQonnx) && !consumers.empty() &&
           std::ranges::all_of(consumers, [&](std::size_t i) { return is_cast(graph.nodes[i]); });
  };
  const auto is_end = [&](const std::string& output) {
    return subject.is_for(Profile::kQonnx) && subject.links().is_output(output) &&
           subject.links().consumers(output).empty();
  };
  const auto add = [&](const std::string& name, ElementType type) {
    if (graph::is_other_float(type))
      report.add(name, "found " + std::string(graph::name_of(type)) + ", expected float");
  };
  for (const std::string& input : graph.inputs) {
    if (const Value* known = graph.find(input); known && !is_cast_input(input)) add(input, known->type);
  }
  for (const auto& entry : graph.initializers) {
    const std::string& name = entry.first;
    const auto consumers = subject.links().consumers(name);
    const bool is_parameter = !consumers.empty() && std::ranges::all_of(consumers, [&](std::size_t i) {
      return is_qonnx_quantizer(graph.nodes[i]) && input_of(graph.nodes[i], kData) != name;
    });
    if (!is_parameter) add(name, entry.second.type());  // parameter_types() speaks of the others
  }
  for (const Node& node : graph.nodes) {
    if (!is_cast(node) || !node.has_output(0) || is_end(node.outputs[0])) continue;
    if (const Value* known = graph.find(node.outputs[0])) add(node.name, known->type);
  }
}

void operators(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    for (const Consumer& consumer : kConsumers) {
      if (!subject.is_for(consumer.profile)) continue;
      if (const std::string why = consumer.refusal(subject, node); !why.empty()) report.add(node, why);
    }
  }
}

void opset_version(const Subject& subject, Report& report) {
  constexpr std::int64_t kMost = 21;
  if (const std::int64_t found = subject.graph().opset(); found > kMost) {
    report.add("opset_import", "found operator set " + std::to_string(found) + " of ONNX, expected at most " +
                                   std::to_string(kMost));
  }
}

void qonnx_version(const Subject& subject, Report& report) {
  const Graph& graph = subject.graph();
  const auto needed = version_needed(graph);
  bool has_general = false;
  for (const Node& node : graph.nodes) {
    has_general = has_general || node.domain == kQonnxDomain;
    if (!node.is("Trunc", kQonnxDomain) || node.version > 2) continue;
    const std::size_t expected = node.version == 2 ? 6 : 5;
    if (node.inputs.size() == expected) continue;
    report.add(node,
               "it has " + std::to_string(node.inputs.size()) + " inputs; in version " +
                   std::to_string(node.version) + " of its domain Trunc has " + std::to_string(expected),
               needed.has_value() && (node.inputs.size() == 5 || node.inputs.size() == 6));
  }
  const std::int64_t found = graph.opset(kQonnxDomain);
  if (!has_general || found == 1 || (needed == 2 && found == 2)) return;
  const bool truncs =
      std::ranges::any_of(graph.nodes, [](const Node& n) { return n.is("Trunc", kQonnxDomain); });
  if (found == 2 && truncs) return;  // said above, by node
  report.add("opset_import",
             "found version " + std::to_string(found) + " of " + std::string(kQonnxDomain) +
                 ", expected 1, or 2 where a Trunc has six inputs",
             found == 2 || !truncs);
}

Graph set_qonnx_version(Graph graph, Profile) {
  const auto needed = version_needed(graph);
  if (!needed) return graph;
  graph.opsets[std::string(kQonnxDomain)] = *needed;
  for (Node& node : graph.nodes) {
    if (node.domain == kQonnxDomain) node.version = *needed;
  }
  return graph;
}

}  // namespace crumb::exporting::checks
