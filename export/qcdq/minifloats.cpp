#include "export/qcdq/minifloats.h"

#include <array>
#include <cmath>
#include <map>

#include "export/qcdq/integer_range.h"
#include "export/qcdq/qcdq_writer.h"
#include "graph/strided_index.h"

namespace crumb::exporting {

using graph::ConstantValue;
using graph::ElementType;
using graph::FloatFormat;
using graph::Node;
using graph::Shape;

namespace {

FloatFormat format(double exponent, double mantissa, double bias, double largest, bool inf, bool nan) {
  return {.exponent_bits = exponent,
          .mantissa_bits = mantissa,
          .exponent_bias = bias,
          .max_value = largest,
          .has_inf = inf,
          .has_nan = nan};
}

const std::array<Minifloat, 5>& minifloats() {
  static const std::array<Minifloat, 5> kAll = {{
      {ElementType::kFloat8E4M3fn, format(4, 3, 7, 448, false, true), 19},
      {ElementType::kFloat8E4M3fnuz, format(4, 3, 8, 240, false, true), 19},
      {ElementType::kFloat8E5M2, format(5, 2, 15, 57344, true, true), 19},
      {ElementType::kFloat8E5M2fnuz, format(5, 2, 16, 57344, false, true), 19},
      {ElementType::kFloat4E2M1, format(2, 1, 1, 6, false, false), 23},
  }};
  return kAll;
}

}  // namespace

const Minifloat* find_minifloat(ElementType type) {
  for (const Minifloat& known : minifloats()) {
    if (known.type == type) return &known;
  }
  return nullptr;
}

const Minifloat* find_minifloat(const FloatFormat& wanted) {
  for (const Minifloat& known : minifloats()) {
    const FloatFormat& have = known.format;
    if (have.exponent_bits == wanted.exponent_bits && have.mantissa_bits == wanted.mantissa_bits &&
        have.exponent_bias == wanted.exponent_bias && have.largest() == wanted.largest() && wanted.saturates)
      return &known;
  }
  return nullptr;
}

std::optional<graph::Tensor> encoded(ElementType type, const std::vector<std::int64_t>& shape,
                                     std::span<const float> values) {
  const std::int64_t count = std::int64_t{1} << info(type).bits;
  std::vector<std::int64_t> all(static_cast<std::size_t>(count));
  for (std::int64_t code = 0; code < count; ++code) all[static_cast<std::size_t>(code)] = code;
  const std::vector<float> numbers = graph::Tensor::ints(type, {count}, all).to_floats();
  std::map<float, std::int64_t> code_of;
  for (std::int64_t code = count; code-- > 0;) {
    // Of 0 and -0 the first stays, whose code is 0.
    const float number = numbers[static_cast<std::size_t>(code)];
    if (std::isfinite(number)) code_of[number] = code;
  }
  std::vector<std::int64_t> codes;
  codes.reserve(values.size());
  for (const float value : values) {
    const auto found = std::isfinite(value) ? code_of.find(value) : code_of.end();
    if (found == code_of.end()) return {};
    codes.push_back(found->second);
  }
  return graph::Tensor::ints(type, shape, codes);
}

Why QcdqWriter::float_quant(const Node& node) {
  if (options_.arithmetic == Arithmetic::kAll) return "is a minifloat, which float arithmetic cannot say";
  if (node.inputs.size() < 6) return "has " + std::to_string(node.inputs.size()) + " inputs, expected 6";
  const auto scale = constants_.find(node.inputs[1]);
  if (!scale) return "has a scale that is computed from its inputs";
  const auto exponent = constants_.number(node.inputs[2]), mantissa = constants_.number(node.inputs[3]),
             bias = constants_.number(node.inputs[4]), largest = constants_.number(node.inputs[5]);
  if (!exponent || !mantissa || !bias || !largest) return "has a format that is no constant";
  FloatFormat wanted = format(*exponent, *mantissa, *bias, *largest, false, false);
  wanted.saturates = node.int_or("saturation", 1) != 0;
  const Minifloat* known = find_minifloat(wanted);
  if (!known) return "is of a format that is none of ONNX's types that saturate";
  if (opset_ < known->opset) {
    return "is " + std::string(name_of(known->type)) + ", which needs operator set " +
           std::to_string(known->opset);
  }
  if (graph::find_quant_rounding(node.text_or("rounding_mode", "ROUND")) != graph::QuantRounding::kHalfEven) {
    return "rounds by " + node.text_or("rounding_mode", "ROUND") + ", QuantizeLinear to even";
  }
  const auto data = constants_.find(node.inputs[0]);
  if (!data) {
    if (auto why = takes_floats(node)) return why;
  }
  const auto shape = data ? Shape(data->shape.begin(), data->shape.end()) : graph_.shape_of(node.inputs[0]);
  const auto linear = linear_parameters(*scale, ConstantValue{.values = {0}}, shape, opset_);
  if (!linear.ok()) return linear.failure().message;
  Chain chain = chain_for(node);
  chain.container = known->type;
  chain.parameters = linear.value();
  chain.data = node.inputs[0];
  chain.quantizes = true;
  if (data && !options_.weights_as_float) return constant_float(node, *data, std::move(chain));
  replaces(node);
  emit(chain);
  return {};
}

Why QcdqWriter::constant_float(const Node& node, const ConstantValue& data, Chain chain) {
  const BroadcastParameters spread = broadcast(chain.parameters, Shape(data.shape.begin(), data.shape.end()));
  auto at = graph::StridedIndex::broadcast(data.shape, spread.shape);
  if (!at) return "has a scale that does not broadcast to its constant";
  std::vector<double> quotients;
  quotients.reserve(data.values.size());
  for (const double value : data.values) {
    quotients.push_back(static_cast<float>(value) / spread.scale[at->at()]);
    at->next();
  }
  const double one = 1;
  const auto made =
      graph::quantize_float({.values = quotients, .shape = data.shape}, {.values = {&one, 1}, .shape = {}},
                            find_minifloat(chain.container)->format, graph::QuantRounding::kHalfEven);
  if (!made.ok()) return made.failure().message;
  auto tensor = encoded(chain.container, data.shape, made.value().values);
  if (!tensor) return "is of a constant that holds NaN or infinity";
  replaces(node);
  chain.quantizes = false;
  chain.data = out_.constant(chain.name + "_codes", std::move(*tensor));
  emit(chain);
  return {};
}

}  // namespace crumb::exporting
