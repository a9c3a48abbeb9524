#include "export/write.h"

#include <algorithm>
#include <array>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "base/text/nearest_name.h"
#include "export/lint/subject.h"
#include "export/qcdq/block_products.h"
#include "export/qcdq/from_qcdq.h"
#include "export/qcdq/to_qcdq.h"
#include "export/qonnx/bake_weights.h"
#include "export/qonnx/to_qonnx.h"
#include "export/read_back.h"
#include "graph/certificate.h"
#include "graph/control/decide.h"
#include "graph/facts/bind_shapes.h"
#include "graph/facts/lift_quantized.h"
#include "graph/onnx/if_nodes.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/onnx/read.h"
#include "graph/onnx/write.h"
#include "graph/packed/crumb_graph.h"
#include "graph/passes/passes.h"
#include "graph/qonnx/quantized_constants.h"

namespace crumb::exporting {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kUsualOpset = 13;
constexpr auto kFormNames = std::to_array<std::string_view>({"qonnx", "qcdq", "float", "packed"});

/// A report that counts the graph's quantizers, of constants and of others.
WriteReport report_of(const Graph& graph, std::int64_t opset) {
  WriteReport report{.opset = opset};
  const graph::ConstantValues constants(graph);
  for (const Node& node : graph.nodes) {
    if (!is_qonnx_quantizer(node) && !is_thresholds(node)) continue;
    ++(constants.is_constant(node.inputs[kData]) ? report.weights : report.activations);
  }
  return report;
}

bool has_linear_quantizers(const Graph& graph) {
  return std::ranges::any_of(
      graph.nodes, [](const Node& node) { return node.is("QuantizeLinear") || node.is("DequantizeLinear"); });
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + quote_text(name);
  return text;
}

WriteReport write_qonnx(const Graph& graph, const fs::path& path, const WriteOptions& options) {
  std::vector<std::string> notes;
  const Graph meant = to_qonnx(graph, {.profile = options.profile,
                                       .opset = options.opset,
                                       .shapes = options.shapes,
                                       .integer_view = options.integer_view,
                                       .allow_approximate = options.allow_approximate,
                                       .notes = &notes});
  graph::write_onnx(meant, path,
                    [&](const Graph& found) { expect_same_quantizers(meant, graph::infer_shapes(found)); });
  WriteReport report = report_of(meant, meant.opset());
  report.notes = std::move(notes);
  const auto thresholds =
      std::ranges::count_if(meant.nodes, is_thresholds) - std::ranges::count_if(graph.nodes, is_thresholds);
  if (thresholds > 0) {
    report.notes.push_back(
        std::to_string(thresholds) + (thresholds == 1 ? " quantizer is" : " quantizers are") +
        " written as thresholds (MultiThreshold), because FINN's own would give other codes");
  }
  return report;
}

/// Weights as initializers of quantizers, shapes as far as they are known or given.
Graph prepared(const Graph& graph, const WriteOptions& options) {
  Graph lowered = graph::lower_quantized(graph);
  expect_same_codes(graph, lowered);
  lowered = graph::plain_constants(std::move(lowered));
  lowered = options.shapes.empty()
                ? graph::resolve_shapes(std::move(lowered))
                : graph::decide_control_flow(graph::bind_shapes(std::move(lowered), options.shapes));
  return graph::fold_known(std::move(lowered));
}

/// In the least operator set that can say all, among those that brought types for quantized tensors. Throws
/// what to_qcdq() says of the first where there is none.
Graph least_qcdq(const Graph& source, QcdqOptions options, QcdqReport& report) {
  constexpr auto kLater = std::to_array<std::int64_t>({19, 21, 23, 25});
  Result<Graph> first = find_qcdq(source, options, report);
  if (first.ok()) return first.take();
  for (const std::int64_t opset : kLater) {
    options.opset = opset;
    if (Result<Graph> later = find_qcdq(source, options, report); later.ok()) return later.take();
  }
  return first.take();
}

void note(WriteReport& report, const char* text, const std::vector<std::string>& names) {
  if (!names.empty()) report.notes.push_back(text + joined(names));
}

WriteReport write_qcdq(const Graph& graph, const fs::path& path, const WriteOptions& options) {
  Graph given = graph;
  BlockProducts products;
  if (options.weights_as == WeightsAs::kMatMulNBits) {
    given = graph::lift_quantized(std::move(given));
    products = take_block_products(given);
  }
  const Graph source = bake_weights(prepared(given, options));
  QcdqReport qcdq;
  const QcdqOptions wanted{
      .opset = options.opset > 0      ? options.opset
               : options.native_types ? kNativeOpset
                                      : kUsualOpset,
      .native_types = options.native_types,
      .weights_as_float = options.weights_as_float,
      .arithmetic = options.allow_arithmetic ? Arithmetic::kWhereNeeded : Arithmetic::kNone};
  const Graph made = graph::branch_by_branch(options.opset > 0 ? to_qcdq(source, wanted, &qcdq)
                                                               : least_qcdq(source, wanted, qcdq));
  graph::write_onnx(put_block_products(made, products), path, [&](const Graph& found) {
    expect_same_products(made, products, found);
    expect_same_quantizers(from_qcdq(made), from_qcdq(found));
  });
  WriteReport report = report_of(source, made.opset());
  report.weights += products.size();
  if (!products.empty())
    report.notes.push_back(count_text(products.size(), "weight") + (products.size() == 1 ? " is" : " are") +
                           " written as " + kMatMulNBits + " of com.microsoft, which onnxruntime runs");
  note(report, "QuantizeLinear adds the zero point after rounding: exact ties may differ by one step at ",
       qcdq.ties);
  note(report, "written as float arithmetic: ", qcdq.arithmetic);
  note(report, "one bit, which only the metadata tell from three values: ", qcdq.bipolar);
  return report;
}

/// Every quantizer of a constant as the constant that it makes.
Graph with_folded_weights(Graph graph) {
  std::map<std::string, Tensor> folded;
  {
    const graph::ConstantValues constants(graph);
    for (const Node& node : graph.nodes) {
      if (!is_qonnx_quantizer(node) || !constants.is_constant(node.outputs[0])) continue;
      const auto made = constants.find(node.outputs[0]);
      if (!made) throw Error(text_of(node) + ": its values cannot be computed");
      const std::vector<float> values(made->values.begin(), made->values.end());
      folded.emplace(node.outputs[0], Tensor::floats(made->shape, values));
    }
  }
  std::erase_if(graph.nodes,
                [&](const Node& node) { return !node.outputs.empty() && folded.contains(node.outputs[0]); });
  for (auto& [name, tensor] : folded) graph.initializers.insert_or_assign(name, std::move(tensor));
  return graph::fold_known(std::move(graph));
}

WriteReport write_float(const Graph& graph, const fs::path& path, const WriteOptions& options) {
  Graph source = with_folded_weights(prepared(graph::fold_quantized(graph), options));
  graph::drop_certificates(source);  // they speak of codes
  QcdqReport qcdq;
  const Graph made = to_qcdq(
      source, {.opset = options.opset > 0 ? options.opset : kUsualOpset, .arithmetic = Arithmetic::kAll},
      &qcdq);
  graph::write_onnx(made, path, [&](const Graph& found) {
    if (found.initializers != made.initializers)
      throw Error("the file's constants are not those that were meant");
  });
  WriteReport report{.opset = made.opset(), .weights = 0, .activations = 0};
  note(report, "quantizers of activations, written as the float arithmetic that they are: ", qcdq.arithmetic);
  return report;
}

/// As it is: constants that are kept as codes stay codes, and those that quantizers make become codes.
WriteReport write_packed(const Graph& graph, const fs::path& path, const WriteOptions& options) {
  Graph meant = graph::lift_quantized(graph);
  if (!options.shapes.empty())
    meant = graph::decide_control_flow(graph::bind_shapes(std::move(meant), options.shapes));
  graph::write_crumb_graph(
      meant, path, {.reads_back = true, .as_checkpoint = !options.files.empty(), .files = options.files});
  WriteReport report = report_of(meant, meant.opset());
  report.weights += meant.quantized.size();
  return report;
}

}  // namespace

WeightsAs weights_as_named(std::string_view name) {
  const auto found = std::ranges::find(kWeightsAsNames, name);
  if (found == std::end(kWeightsAsNames))
    throw usage_error(unknown_name("form of weights", name, kWeightsAsNames) + " (qcdq, MatMulNBits)");
  return static_cast<WeightsAs>(found - std::begin(kWeightsAsNames));
}

std::string_view name_of(Form form) { return kFormNames[static_cast<std::size_t>(form)]; }

Form form_named(std::string_view name) {
  const auto found = std::ranges::find(kFormNames, name);
  if (found == kFormNames.end()) {
    const std::vector<std::string_view> names(kFormNames.begin(), kFormNames.end());
    throw usage_error(unknown_name("form", name, names) + " (qonnx, qcdq, float, packed)");
  }
  return static_cast<Form>(found - kFormNames.begin());
}

WriteReport write(const Graph& graph, Form form, const fs::path& path, const WriteOptions& options) {
  if (form == Form::kPacked) return write_packed(graph, path, options);
  const Graph source = has_linear_quantizers(graph) ? from_qcdq(graph) : graph;
  if (form == Form::kQonnx) return write_qonnx(source, path, options);
  if (form == Form::kQcdq) return write_qcdq(source, path, options);
  return write_float(source, path, options);
}

}  // namespace crumb::exporting
