// Quantizers as the float arithmetic that they are, for those that QuantizeLinear cannot say.
#include <algorithm>
#include <cmath>

#include "export/qcdq/qcdq_writer.h"

namespace crumb::exporting {

using graph::ConstantValue;
using graph::ElementType;
using graph::Node;
using graph::QuantRounding;
using graph::Tensor;

namespace {

std::vector<float> floats_of(const ConstantValue& value) {
  return {value.values.begin(), value.values.end()};
}

bool is_float32(double x) { return x == static_cast<double>(static_cast<float>(x)); }

bool are_zeros(const ConstantValue& value) {
  return std::ranges::all_of(value.values, [](double x) { return x == 0; });
}

}  // namespace

std::string QcdqWriter::step(const std::string& op, const std::string& name,
                             std::vector<std::string> inputs) {
  return out_.node(
      {.op = op, .name = name, .inputs = std::move(inputs), .known = {.type = ElementType::kFloat}});
}

std::string QcdqWriter::last_step(const std::string& op, const Node& node, std::vector<std::string> inputs) {
  report_.arithmetic.push_back(name_of(node));
  return out_.node({.op = op, .name = name_of(node), .inputs = std::move(inputs), .output = node.outputs[0]});
}

std::string QcdqWriter::rounded(const std::string& x, QuantRounding mode, const std::string& name) {
  const auto of_magnitude = [&](const char* op, float shift) {
    const std::string sign = step("Sign", name + "_sign", {x});
    std::string size = step("Abs", name + "_abs", {x});
    if (shift != 0) {
      size = step("Add", name + "_half", {size, out_.constant(name + "_shift", Tensor::scalar(shift))});
    }
    size = step(op, name + "_round", {size});
    return step("Mul", name + "_signed", {sign, size});
  };
  switch (mode) {
    case QuantRounding::kHalfEven: break;
    case QuantRounding::kCeil: return step("Ceil", name + "_round", {x});
    case QuantRounding::kFloor: return step("Floor", name + "_round", {x});
    case QuantRounding::kUp: return of_magnitude("Ceil", 0);
    case QuantRounding::kDown: return of_magnitude("Floor", 0);
    case QuantRounding::kHalfUp: return of_magnitude("Floor", 0.5F);
    case QuantRounding::kHalfDown: return of_magnitude("Ceil", -0.5F);
  }
  return step("Round", name + "_round", {x});
}

Why QcdqWriter::arithmetic_quant(const Node& node) {
  if (auto why = takes_floats(node)) return why;
  const auto bits = constants_.find(node.inputs[3]);
  const auto mode = graph::find_quant_rounding(node.text_or("rounding_mode", "ROUND"));
  if (!bits || bits->values.size() != 1 || !mode) return "has no arithmetic of constants either";
  const graph::IntegerFormat format{.bits = bits->values[0],
                                    .is_signed = node.int_or("signed", 1) != 0,
                                    .narrow = node.int_or("narrow", 0) != 0,
                                    .wide = bits->wide};
  if (!is_float32(format.lower()) || !is_float32(format.upper())) return "has bounds that are no float32";
  const auto scale = constants_.find(node.inputs[1]), zero = constants_.find(node.inputs[2]);
  const auto is_float = [&](std::size_t i) {
    const graph::Value* known = graph_.find(node.inputs[i]);
    return known && known->type == ElementType::kFloat;
  };
  const bool has_zero = !zero || !are_zeros(*zero);
  if (scale ? scale->wide : !is_float(1)) return "is computed in float64";
  if (has_zero && (zero ? zero->wide : !is_float(2))) return "is computed in float64";

  replaces(node);
  const std::string name = name_of(node);
  const auto parameter = [&](const std::optional<ConstantValue>& value, std::size_t i, const char* suffix) {
    return value ? out_.constant(name + suffix, Tensor::floats(value->shape, floats_of(*value)))
                 : node.inputs[i];
  };
  const std::string by = parameter(scale, 1, "_scale"),
                    shift = has_zero ? parameter(zero, 2, "_zero_point") : std::string();
  const auto number = [&](const char* suffix, double value) {
    return out_.constant(name + suffix, Tensor::scalar(static_cast<float>(value)));
  };
  std::string x = step("Div", name + "_div", {node.inputs[0], by});
  if (has_zero) x = step("Add", name + "_add", {x, shift});
  if (format.is_bipolar()) {
    const std::string above = out_.node({.op = "GreaterOrEqual",
                                         .name = name + "_sign",
                                         .inputs = {x, number("_threshold", 0)},
                                         .known = {.type = ElementType::kBool}});
    x = step("Where", name + "_where", {above, number("_one", 1), number("_minus_one", -1)});
  } else {
    x = step("Clip", name + "_clip", {x, number("_min", format.lower()), number("_max", format.upper())});
    x = rounded(x, *mode, name);
  }
  if (has_zero) x = step("Sub", name + "_sub", {x, shift});
  last_step("Mul", node, {x, by});
  return {};
}

Why QcdqWriter::arithmetic_trunc(const Node& node) {
  const bool scales_output = node.version >= 2;
  if (node.inputs.size() < (scales_output ? 6 : 5)) return "has too few inputs";
  if (auto why = takes_floats(node)) return why;
  const auto scale = constants_.find(node.inputs[1]), zero = constants_.find(node.inputs[2]);
  const auto in_bits = constants_.number(node.inputs[3]),
             out_bits = constants_.number(node.inputs[scales_output ? 5 : 4]);
  const auto mode = graph::find_quant_rounding(node.text_or("rounding_mode", "FLOOR"));
  if (!scale || !zero || !in_bits || !out_bits || !mode) return "has parameters that are no constants";
  const bool has_zero = !are_zeros(*zero);
  const auto out_scale = scales_output ? constants_.find(node.inputs[4]) : scale;
  if (!out_scale || scale->wide || out_scale->wide || (has_zero && zero->wide)) {
    return "is computed in float64";
  }
  double by = std::exp2(*in_bits - *out_bits);
  if (scales_output) {
    if (scale->values.size() != 1 || out_scale->values.size() != 1) return "has a scale for each channel";
    by = std::exp2(std::nearbyint(
        std::log2(static_cast<float>(out_scale->values[0]) / static_cast<float>(scale->values[0]))));
  }
  const graph::IntegerFormat format{
      .bits = *out_bits, .is_signed = node.int_or("signed", 1) != 0, .narrow = node.int_or("narrow", 0) != 0};
  if (!is_float32(by) || by == 0 || !is_float32(format.lower()) || !is_float32(format.upper())) {
    return "has widths whose bounds are no float32";
  }

  replaces(node);
  const std::string name = name_of(node);
  const auto tensor = [&](const char* suffix, const ConstantValue& value, double divisor) {
    std::vector<float> numbers = floats_of(value);
    for (float& x : numbers) x = static_cast<float>(x / divisor);
    return out_.constant(name + suffix, Tensor::floats(value.shape, numbers));
  };
  const auto number = [&](const char* suffix, double value) {
    return out_.constant(name + suffix, Tensor::scalar(static_cast<float>(value)));
  };
  std::string x = step("Div", name + "_div", {node.inputs[0], tensor("_scale", *scale, 1)});
  if (has_zero) x = step("Add", name + "_add", {x, tensor("_zero_point", *zero, 1)});
  x = step("Round", name + "_whole", {x});
  x = step("Div", name + "_shift", {x, number("_step", by)});
  if (scales_output) {
    x = step("Clip", name + "_clip", {x, number("_min", format.lower()), number("_max", format.upper())});
  }
  x = rounded(x, *mode, name);
  if (has_zero) x = step("Sub", name + "_sub", {x, tensor("_out_zero_point", *zero, scales_output ? by : 1)});
  last_step("Mul", node, {x, tensor("_out_scale", *out_scale, 1)});
  return {};
}

}  // namespace crumb::exporting
