#include "export/qonnx/to_qonnx.h"

#include "base/files/text.h"
#include "export/hls4ml/plain_biases.h"
#include "export/lint/subject.h"
#include "export/qonnx/bake_weights.h"
#include "export/qonnx/integer_view.h"
#include "export/read_back.h"
#include "graph/control/decide.h"
#include "graph/facts/bind_shapes.h"
#include "graph/facts/infer_datatypes.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/passes/opset.h"
#include "graph/passes/passes.h"
#include "graph/passes/to_float32.h"
#include "graph/qonnx/quantized_constants.h"

namespace crumb::exporting {
namespace {

constexpr std::int64_t kUsualOpset = 13;
constexpr std::size_t kMostNamed = 20;

/// Only Trunc has a second version there.
Graph with_general_domain(Graph graph) {
  bool is_used = false;
  for (const Node& node : graph.nodes) is_used |= node.domain == kQonnxDomain;
  if (is_used) graph.opsets.emplace(kQonnxDomain, 1);
  return graph;
}

[[noreturn]] void refuse(const std::vector<Finding>& findings, Profile profile) {
  std::string text = "the graph cannot be written for " + std::string(name_of(profile)) +
                     " without changing what it computes:";
  for (std::size_t i = 0; i < findings.size() && i < kMostNamed; ++i) {
    text += "\n  " + findings[i].rule + "  " + quote_text(findings[i].node) + ": " + findings[i].message;
  }
  if (findings.size() > kMostNamed) {
    text += "\n  and " + std::to_string(findings.size() - kMostNamed) + " more";
  }
  throw Error(text);
}

/// The form that all profiles share; hls4ml has biases in its convolutions, where it can (rule conv-bias).
Graph portable(Graph graph, Profile profile) {
  graph = graph::remove_identities(std::move(graph));
  graph = bake_weights(std::move(graph));
  graph = graph::gemm_to_matmul(std::move(graph));
  if (profile != Profile::kHls4ml) graph = graph::extract_conv_bias(std::move(graph));
  return graph::fold_transposes(std::move(graph));
}

}  // namespace

Graph to_qonnx(Graph graph, const QonnxOptions& options) {
  Graph lowered = graph::lower_quantized(graph);
  expect_same_codes(graph, lowered);
  graph = graph::decide_control_flow(
      graph::bind_shapes(graph::plain_constants(std::move(lowered)), options.shapes));
  graph = graph::to_float32(std::move(graph),
                            options.profile == Profile::kQonnx ? graph::Ends::kKept : graph::Ends::kFloat32);
  graph = graph::fold_known(std::move(graph));
  const std::int64_t opset = options.opset > 0 ? options.opset : graph::least_opset(graph, kUsualOpset);
  // Bodies of newer operators compute with shapes.
  graph = graph::fold_known(graph::with_opset(std::move(graph), opset));
  if (options.profile == Profile::kHls4ml) graph = hls4ml::with_plain_biases(std::move(graph));
  graph = marked(with_general_domain(std::move(graph)));
  const Graph meant = graph;
  graph = fix(portable(std::move(graph), options.profile), options.profile);
  expect_same_constants(meant, graph);
  graph = unmarked(std::move(graph));
  if (options.integer_view) graph = integer_view(std::move(graph));
  graph = fix_names(graph::readable_names(graph::infer_shapes(std::move(graph))), options.profile);
  graph = graph::annotate_integers(graph::resolve_shapes(std::move(graph)));
  std::vector<Finding> refused;
  for (const Finding& finding : lint(graph, options.profile)) {
    const bool allowed = finding.severity == Severity::kWarning ||
                         (finding.severity == Severity::kApproximate && options.allow_approximate);
    if (!allowed) refused.push_back(finding);
    if (allowed && options.notes) {
      options.notes->push_back(std::string(name_of(options.profile)) + ", " + finding.rule + ": " +
                               quote_text(finding.node) + ": " + finding.message);
    }
  }
  if (!refused.empty()) refuse(refused, options.profile);
  return graph;
}

}  // namespace crumb::exporting
