// Crumb's own operator: fake quantization with given scales becomes a quantizer of QONNX.
#include <algorithm>
#include <iterator>

#include "graph/quantize/apply.h"
#include "libtorch/capture/ops/families.h"
#include "quant/quant_spec.h"

namespace crumb::libtorch {
namespace {

/// The one number of a constant tensor.
float number_of(const Op& op, const char* argument) {
  const graph::Tensor* constant = op.net.graph.constant(op.tensor(argument));
  if (!constant || constant->size() != 1) {
    op.fail(std::string("its ") + argument +
            " is not one number that is known; activations have one for the tensor");
  }
  return constant->to_floats()[0];
}

graph::PlannedEdge edge_of(const Op& op, const std::string& value) {
  const std::string text = op.text("spec");
  if (op.has("scale")) {
    const QuantSpec spec = QuantSpec::parse_either(text);
    if (spec.granularity != Granularity::kTensor) op.fail(text + " has several scales, activations have one");
    graph::PlannedEdge edge{.value = value, .spec = spec, .scale = number_of(op, "scale")};
    if (op.has("zero_point")) edge.zero_point = number_of(op, "zero_point");
    return edge;
  }
  if (text.find(":token") == std::string::npos) {
    op.fail("its scale follows from the values at each step (" + text +
            "); of activations that is said of tokens alone, as in int8:token");
  }
  return {.value = value, .spec = QuantSpec::parse_activations(text)};
}

void fake_quantize(Op& op) {
  const std::string x = op.tensor("x"), made = op.net.unused(x + "_quantized");
  const graph::PlannedEdge edge = edge_of(op, x);
  std::vector<graph::Node> nodes = graph::activation_quantizer(op.net.graph, edge, made);
  graph::Node& node = nodes.back();
  node.name = op.net.unused(made + "/" + node.op);
  node.inputs[0] = x;
  node.outputs = {made};
  std::ranges::move(nodes, std::back_inserter(op.net.graph.nodes));
  op.set(made);
}

constexpr ConversionRow kQuantizerRows[] = {{"crumb::fake_quantize", fake_quantize}};

}  // namespace

std::span<const ConversionRow> quantizer_conversions() { return kQuantizerRows; }

}  // namespace crumb::libtorch
