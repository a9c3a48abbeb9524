#include <algorithm>
#include <cmath>
#include <functional>

#include "base/files/text.h"
#include "graph/facts/constant_operators.h"
#include "graph/qonnx/quant_arithmetic.h"
#include "graph/strided_index.h"

namespace crumb::graph {
namespace {

QuantOperand operand(const ConstantValue& value) {
  return {.values = value.values, .shape = value.shape, .wide = value.wide};
}

MadeConstant quantized(const Node& node, const ConstantInputs& in, Result<Quantized> result,
                       const ConstantValue* zero) {
  Quantized found = result.take(text_of(node));
  ConstantValue made{.shape = in[0]->shape};
  made.values.assign(found.values.begin(), found.values.end());
  if (found.integers.empty()) return made;
  made.levels = std::move(found.integers);
  made.scale_shape = in[1]->shape;
  made.scale = in[1]->values;
  if (zero) {
    auto index = StridedIndex::broadcast(made.shape, zero->shape);
    for (double& level : made.levels) {
      level -= zero->values[index->at()];
      index->next();
    }
  }
  return made;
}

QuantRounding rounding_of(const Node& node) {
  const std::string name = node.text_or("rounding_mode", "ROUND");
  const auto mode = find_quant_rounding(name);
  if (!mode) throw Error(text_of(node) + ": rounding_mode is " + quote_text(name));
  return *mode;
}

/// Returns [1, ..., C, ..., 1], the shape of a scale with one number for each index of `axis`.
std::optional<std::vector<std::int64_t>> along_axis(const Node& node, const ConstantValue& x,
                                                    const ConstantValue& scale) {
  if (scale.values.size() == 1) return std::vector<std::int64_t>{};
  const auto axis = axis_in(node.int_or("axis", 1), x.shape.size());
  if (scale.shape.size() != 1 || !axis) return {};
  std::vector<std::int64_t> shape(x.shape.size(), 1);
  shape[*axis] = scale.shape[0];
  return shape;
}

/// Whether QuantizeLinear or DequantizeLinear has a constant scale and computes in float32.
bool is_in_float32(const Graph& graph, const Node& node, const ConstantInputs& in) {
  return in.size() >= 2 && in[1] && element_type_in(graph, node.inputs[1]) == ElementType::kFloat;
}

}  // namespace

MadeConstant constant_from_qonnx(const Node& node, const ConstantInputs& in) {
  const auto needs = [&](std::size_t count) {
    if (in.size() >= count &&
        std::all_of(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(count), std::identity()))
      return;
    throw Error(text_of(node) + " has " + std::to_string(in.size()) + " inputs, expected " +
                std::to_string(count));
  };
  const auto number = [&](std::size_t i) {
    if (in[i]->values.size() == 1) return in[i]->values[0];
    throw Error(text_of(node) + ": input " + std::to_string(i) + " has the shape " + text_of(in[i]->shape) +
                ", expected one number");
  };
  if (node.op == "BipolarQuant") {
    needs(2);
    return quantized(node, in, quantize_bipolar(operand(*in[0]), operand(*in[1])), nullptr);
  }
  if (node.op == "Quant" || node.op == "IntQuant") {
    needs(4);
    const IntegerFormat format{.bits = number(3),
                               .is_signed = node.int_or("signed", 1) != 0,
                               .narrow = node.int_or("narrow", 0) != 0,
                               .wide = in[3]->wide};
    return quantized(node, in,
                     quantize(operand(*in[0]), operand(*in[1]), operand(*in[2]), format, rounding_of(node)),
                     in[2].get());
  }
  if (node.op != "FloatQuant") return {};
  needs(6);
  const FloatFormat format{.exponent_bits = number(2),
                           .mantissa_bits = number(3),
                           .exponent_bias = number(4),
                           .max_value = number(5),
                           .has_inf = node.int_or("has_inf", 0) != 0,
                           .has_nan = node.int_or("has_nan", 0) != 0,
                           .saturates = node.int_or("saturation", 1) != 0};
  return quantized(node, in, quantize_float(operand(*in[0]), operand(*in[1]), format, rounding_of(node)),
                   nullptr);
}

MadeConstant dequantized_linearly(const Graph& graph, const Node& node, const ConstantInputs& in) {
  if (!is_in_float32(graph, node, in) || element_type_in(graph, node.outputs[0]) != ElementType::kFloat)
    return {};
  const auto shape = along_axis(node, *in[0], *in[1]);
  if (!shape || !StridedIndex::broadcast(in[0]->shape, *shape)) return {};
  ConstantValue made{.shape = in[0]->shape};
  made.levels = in[0]->values;
  made.scale = in[1]->values;
  made.scale_shape = *shape;
  const bool shifted = in.size() > 2 && in[2];
  if (shifted && in[2]->values.size() != in[1]->values.size()) return {};
  auto index = StridedIndex::broadcast(made.shape, *shape);
  made.values.resize(made.levels.size());
  for (std::size_t i = 0; i < made.levels.size(); ++i, index->next()) {
    if (shifted) made.levels[i] -= in[2]->values[index->at()];
    made.values[i] = static_cast<float>(static_cast<float>(made.levels[i]) * made.scale[index->at()]);
  }
  return made;
}

MadeConstant quantized_linearly(const Graph& graph, const Node& node, const ConstantInputs& in) {
  const ElementType type = element_type_in(graph, node.outputs[0]);
  if (!is_in_float32(graph, node, in) || !is_integer(type)) return {};
  const auto shape = along_axis(node, *in[0], *in[1]);
  if (!shape || !StridedIndex::broadcast(in[0]->shape, *shape)) return {};
  const bool shifted = in.size() > 2 && in[2];
  if (shifted && in[2]->values.size() != in[1]->values.size()) return {};
  const unsigned bits = info(type).bits;
  const bool is_signed = info(type).kind == ElementKind::kSigned;
  const double low = is_signed ? -std::exp2(bits - 1) : 0, high = std::exp2(is_signed ? bits - 1 : bits) - 1;
  ConstantValue made{.shape = in[0]->shape, .wide = is_wide(type), .whole = true};
  made.values.resize(in[0]->values.size());
  auto index = StridedIndex::broadcast(made.shape, *shape);
  for (std::size_t i = 0; i < made.values.size(); ++i, index->next()) {
    const double q =
        rounded(static_cast<float>(static_cast<float>(in[0]->values[i]) / in[1]->values[index->at()]),
                QuantRounding::kHalfEven);
    if (std::isnan(q)) return {};
    made.values[i] = std::clamp(q + (shifted ? in[2]->values[index->at()] : 0), low, high);
  }
  return made;
}

}  // namespace crumb::graph
