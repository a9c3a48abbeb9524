// Rules about QuantizeLinear and its like, and about MultiThreshold.
#include <algorithm>

#include "export/lint/checks.h"

namespace crumb::exporting::checks {
namespace {

using graph::ElementType;

bool is_qdq(const Node& node) { return node.is("QuantizeLinear") || node.is("DequantizeLinear"); }

/// The operator set of ONNX that has the type in QuantizeLinear and DequantizeLinear.
std::int64_t opset_of(ElementType type) {
  switch (type) {
    case ElementType::kUint2:
    case ElementType::kInt2: return 25;
    case ElementType::kFloat4E2M1: return 23;
    case ElementType::kUint4:
    case ElementType::kInt4:
    case ElementType::kUint16:
    case ElementType::kInt16: return 21;
    case ElementType::kFloat8E4M3fn:
    case ElementType::kFloat8E4M3fnuz:
    case ElementType::kFloat8E5M2:
    case ElementType::kFloat8E5M2fnuz: return 19;
    default: return 10;
  }
}

struct Need {
  std::int64_t opset = 0;
  std::string what;
};

ElementType type_of(const Graph& graph, const std::string& name) {
  if (const Tensor* constant = graph.constant(name)) return constant->type();
  const Value* known = graph.find(name);
  return known ? known->type : ElementType::kUnknown;
}

/// The newest operator set that something about the node needs.
Need need_of(const Graph& graph, const Node& node) {
  Need need;
  const auto see = [&](std::int64_t opset, std::string what) {
    if (opset > need.opset) need = {opset, std::move(what)};
  };
  if (is_qdq(node)) {
    see(10, node.op);
    const auto scale = node.has_input(1) ? graph.shape_of(node.inputs[1]) : std::nullopt;
    if (scale && scale->size() == 1 && (*scale)[0].size != 1) see(13, "a scale for each index of an axis");
    if (node.int_or("block_size", 0) != 0 || (scale && scale->size() > 1)) see(21, "scales of blocks");
    for (const std::string& name : node.op == "QuantizeLinear" ? node.outputs : node.inputs) {
      const ElementType type = type_of(graph, name);
      see(opset_of(type), "elements of type " + std::string(name_of(type)));
    }
  }
  if (node.is("Clip") && node.has_input(0) && graph::is_integer(type_of(graph, node.inputs[0]))) {
    see(12, "Clip of integers");
  }
  return need;
}

}  // namespace

void threshold_layouts(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    if (!is_thresholds(node) || !node.text_or("data_layout", "").empty()) continue;
    if (subject.graph().rank_of(input_of(node, 0)) == 3) {
      report.add(node,
                 "data_layout is not written; for three axes versions of qonnx differ about the channels' "
                 "axis");
    }
  }
}

void qdq_ties(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    const Tensor* zero = node.is("QuantizeLinear") ? subject.constant(node, 2) : nullptr;
    if (!zero || !graph::is_integer(zero->type())) continue;
    for (const std::int64_t value : zero->to_ints()) {
      if (value % 2 == 0) continue;
      report.add(node,
                 "its zero point " + std::to_string(value) +
                     " is odd: x / scale is rounded to even before it is added, so that exact ties come out "
                     "one step from Quant's");
      break;
    }
  }
}

void qdq_versions(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    const Need need = need_of(subject.graph(), node);
    if (node.version >= need.opset) continue;
    report.add(node, need.what + " needs operator set " + std::to_string(need.opset) + " of ONNX, found " +
                         std::to_string(node.version));
  }
}

}  // namespace crumb::exporting::checks
