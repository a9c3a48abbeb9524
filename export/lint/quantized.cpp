#include "export/lint/quantized.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/qonnx/quant_arithmetic.h"
#include "graph/strided_index.h"

namespace crumb::exporting {
namespace {

/// A constant as the arithmetic takes it.
struct Operand {
  std::vector<double> values;
  std::vector<std::int64_t> shape;
  bool wide = false;

  graph::QuantOperand view() const { return {values, shape, wide}; }
};

std::optional<Operand> operand(const Tensor* tensor) {
  if (!tensor || tensor->type() != graph::ElementType::kFloat) return {};
  const std::vector<float> values = tensor->to_floats();
  return Operand{{values.begin(), values.end()}, tensor->shape()};
}

std::optional<QuantizedConstant> quantized(const Operand& data, const Operand& scale, const Operand& zeropt,
                                           const graph::IntegerFormat& format, graph::QuantRounding mode) {
  auto made = graph::quantize(data.view(), scale.view(), zeropt.view(), format, mode);
  if (!made.ok()) return {};
  return QuantizedConstant{std::move(made.value().values), std::move(made.value().integers)};
}

/// Whether the quantizer described gives its own data back.
bool is_fixed_point(const SameConstant& same) {
  const auto data = operand(&same.data), scale = operand(&same.scale);
  const Operand zeropt{{same.zeropt}, {}};
  const graph::IntegerFormat format{.bits = same.bits, .is_signed = same.is_signed, .narrow = same.narrow};
  const auto again = quantized(*data, *scale, zeropt, format, graph::QuantRounding::kHalfEven);
  const std::vector<float> values = same.data.to_floats();
  return again && std::ranges::equal(again->values, values);
}

}  // namespace

std::optional<QuantizedConstant> quantized(const Graph& graph, const Node& node) {
  if (!is_quant(node) || node.inputs.size() != 4) return {};
  const auto data = operand(constant_input(graph, node, kData)),
             scale = operand(constant_input(graph, node, kScale)),
             zeropt = operand(constant_input(graph, node, kZeropt));
  const auto bits = uniform(constant_input(graph, node, kBits));
  const auto mode = graph::find_quant_rounding(node.text_or("rounding_mode", "ROUND"));
  if (!data || !scale || !zeropt || !bits || !mode || !node.has("signed") || !node.has("narrow")) return {};
  if (!(*bits >= 1 && *bits <= 32) || std::trunc(*bits) != *bits) return {};
  const graph::IntegerFormat format{
      .bits = *bits, .is_signed = node.int_or("signed", 1) != 0, .narrow = node.int_or("narrow", 0) != 0};
  auto made = quantized(*data, *scale, *zeropt, format, *mode);
  if (!made || made->values.size() != data->values.size()) return {};
  return made;
}

std::optional<SameConstant> rounded_again(const Graph& graph, const Node& node) {
  const auto made = quantized(graph, node);
  const auto zeropt = uniform(constant_input(graph, node, kZeropt));
  if (!made || !zeropt) return {};
  SameConstant same{.data = Tensor::floats(constant_input(graph, node, kData)->shape(), made->values),
                    .scale = *constant_input(graph, node, kScale),
                    .bits = *uniform(constant_input(graph, node, kBits)),
                    .zeropt = *zeropt,
                    .is_signed = node.int_or("signed", 1) != 0,
                    .narrow = node.int_or("narrow", 0) != 0};
  return is_fixed_point(same) ? std::optional(std::move(same)) : std::nullopt;
}

std::optional<SameConstant> without_zero_point(const Graph& graph, const Node& node) {
  const auto made = quantized(graph, node);
  const auto zeropt = operand(constant_input(graph, node, kZeropt));
  if (!made || !zeropt) return {};
  auto place = graph::StridedIndex::broadcast(constant_input(graph, node, kData)->shape(), zeropt->shape);
  if (!place) return {};
  const bool is_half = std::ranges::any_of(zeropt->values, [](double z) { return std::trunc(z) != z; });
  const float factor = is_half ? 2.0F : 1.0F;
  double most = 1;
  for (std::size_t i = 0; i < made->integers.size(); ++i, place->next()) {
    const double code = (made->integers[i] - zeropt->values[place->at()]) * factor;
    if (std::trunc(code) != code) return {};
    most = std::max(most, std::abs(code));
  }
  std::vector<float> scales = constant_input(graph, node, kScale)->to_floats();
  for (float& scale : scales) scale /= factor;
  SameConstant same{.data = Tensor::floats(constant_input(graph, node, kData)->shape(), made->values),
                    .scale = Tensor::floats(constant_input(graph, node, kScale)->shape(), scales),
                    .bits = static_cast<float>(std::ceil(std::log2(most + 1)) + 1),
                    .narrow = true};
  return is_fixed_point(same) ? std::optional(std::move(same)) : std::nullopt;
}

void replace_constant(Graph& graph, std::size_t at, const SameConstant& same) {
  Node& node = graph.nodes[at];
  give_constant(graph, node, kData, same.data);
  give_constant(graph, node, kScale, same.scale);
  give_constant(graph, node, kZeropt, Tensor::scalar(same.zeropt));
  give_constant(graph, node, kBits, Tensor::scalar(same.bits));
  node.attributes["signed"] = std::int64_t{same.is_signed};
  node.attributes["narrow"] = std::int64_t{same.narrow};
  node.attributes["rounding_mode"] = std::string("ROUND");
}

}  // namespace crumb::exporting
