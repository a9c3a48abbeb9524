// Constants in QCDQ's forms as quantizers of floats, checked code by code.
#include <algorithm>
#include <array>
#include <cmath>

#include "export/qcdq/minifloats.h"
#include "export/qcdq/qcdq_reader.h"
#include "graph/qonnx/quant_arithmetic.h"
#include "graph/strided_index.h"

namespace crumb::exporting {

using graph::Node;
using graph::Shape;
using graph::StridedIndex;
using graph::Tensor;

namespace {

std::vector<double> doubles(std::span<const float> values) { return {values.begin(), values.end()}; }

/// What a quantizer makes of one number.
struct One {
  float value = 0;
  double integer = 0;
  bool operator==(const One&) const = default;
};

/// The quantizer that is to be written.
class Check {
 public:
  Check(bool is_bipolar_quant, const IntegerRange& range) : is_bipolar_quant_(is_bipolar_quant) {
    format_ = {.bits = static_cast<double>(range.bits), .is_signed = range.is_signed, .narrow = range.narrow};
  }

  Result<graph::Quantized> all(std::span<const float> values, std::span<const std::int64_t> shape,
                               const BroadcastParameters& parameters) const {
    const std::vector<double> data = doubles(values), scale = doubles(parameters.scale),
                              zero = doubles(parameters.zero);
    const graph::QuantOperand x{data, shape}, s{scale, parameters.shape}, z{zero, parameters.shape};
    if (is_bipolar_quant_) return graph::quantize_bipolar(x, s);
    return graph::quantize(x, s, z, format_, graph::QuantRounding::kHalfEven);
  }

  One operator()(float x, float scale, float zero) const {
    const auto made = all({&x, 1}, {}, {.scale = {scale}, .zero = {zero}});
    return {made.value().values[0], made.value().integers[0]};
  }

  /// A float that the quantizer makes exactly this of: the first wish that does, or a neighbour of the last.
  std::optional<float> input_for(const One& wanted, float scale, float zero,
                                 std::span<const float> wishes) const {
    for (const float wish : wishes) {
      if ((*this)(wish, scale, zero) == wanted) return wish;
    }
    for (const float towards : {INFINITY, -INFINITY}) {
      const float near = std::nextafter(wishes.back(), towards);
      if ((*this)(near, scale, zero) == wanted) return near;
    }
    return {};
  }

 private:
  bool is_bipolar_quant_;
  graph::IntegerFormat format_;
};

/// What QuantizeLinear makes of a float, before Clip.
std::int64_t quantized_linearly(float x, float scale, float zero, const IntegerBounds& container) {
  const double q = graph::rounded(x / scale, graph::QuantRounding::kHalfEven) + static_cast<double>(zero);
  return static_cast<std::int64_t>(
      std::clamp(q, static_cast<double>(container.low), static_cast<double>(container.high)));
}

}  // namespace

Why QcdqReader::constant(const Node& node, const IntegerSource& source, const LinearParameters& linear,
                         Quantizer quantizer) {
  const Tensor& tensor = *graph_.constant(source.quantize ? source.quantize->inputs[0] : source.value);
  if (source.quantize && tensor.type() != graph::ElementType::kFloat) {
    return "is of values of type " + std::string(name_of(tensor.type())) + "; QONNX's quantizers are float32";
  }
  const auto floats = source.quantize ? tensor.to_floats() : std::vector<float>();
  auto codes = source.quantize ? std::vector<std::int64_t>(floats.size()) : tensor.to_ints();
  auto at = StridedIndex::broadcast(tensor.shape(), quantizer.parameters.shape);
  if (!at) return "has a scale that does not broadcast to its constant";
  const auto next_parameters = [&] {
    const std::size_t i = at->at();
    at->next();
    return std::pair(quantizer.parameters.scale[i], quantizer.parameters.zero[i]);
  };
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const auto [scale, zero] = next_parameters();
    if (source.quantize) {
      if (std::isnan(floats[i])) return "is of a constant that holds NaN";
      codes[i] = quantized_linearly(floats[i], scale, zero, bounds_of(source.container));
    }
    codes[i] = std::clamp(codes[i], source.bounds.low, source.bounds.high);
  }
  if (quantizer.range == IntegerRange{1, true, false} && std::ranges::find(codes, 0) != codes.end()) {
    quantizer.op = "Quant";  // whatever the metadata say
    quantizer.range = {2, true, true};
  }

  const Check check(quantizer.op == "BipolarQuant", quantizer.range);
  at = StridedIndex::broadcast(tensor.shape(), quantizer.parameters.shape);
  const auto is_bipolar_quant = quantizer.op == "BipolarQuant";
  const auto input_of = [&](float code, float scale, float zero) {
    return is_bipolar_quant ? code * std::fabs(scale) : (code - zero) * scale;
  };
  std::vector<float> values = floats;
  if (values.empty()) {
    for (const std::int64_t code : codes) {
      const auto [scale, zero] = next_parameters();
      values.push_back(input_of(static_cast<float>(code), scale, zero));
    }
  }
  const auto made = check.all(values, tensor.shape(), quantizer.parameters);
  if (!made.ok()) return made.failure().message;
  at = StridedIndex::broadcast(tensor.shape(), quantizer.parameters.shape);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const auto [scale, zero] = next_parameters();
    const auto code = static_cast<float>(codes[i]);
    const float value = (code - zero) * scale;
    if (made.value().values[i] == value && made.value().integers[i] == static_cast<double>(code)) continue;
    const std::array wishes{values[i], input_of(code, scale, zero)};
    const auto found = check.input_for({value, code}, scale, zero, wishes);
    if (!found) {
      return "holds the integer " + std::to_string(codes[i]) +
             ", which no float32 is rounded to at its scale";
    }
    values[i] = *found;
  }
  emit_constant(node, tensor.shape(), values, linear, std::move(quantizer));
  return {};
}

Why QcdqReader::constant_floats(const Node& node, const IntegerSource& source, const LinearParameters& linear,
                                Quantizer quantizer) {
  const Tensor& tensor = *graph_.constant(source.value);
  std::vector<float> values = tensor.to_floats();
  auto at = StridedIndex::broadcast(tensor.shape(), quantizer.parameters.shape);
  if (!at) return "has a scale that does not broadcast to its constant";
  for (float& value : values) {
    value *= quantizer.parameters.scale[at->at()];
    at->next();
  }
  const std::vector<double> data = doubles(values), scale = doubles(quantizer.parameters.scale);
  const auto made =
      graph::quantize_float({data, tensor.shape()}, {scale, quantizer.parameters.shape},
                            find_minifloat(quantizer.minifloat)->format, graph::QuantRounding::kHalfEven);
  if (!made.ok()) return made.failure().message;
  const auto same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  if (!std::ranges::equal(made.value().values, values, same)) {
    return "holds values that FloatQuant would not give again";
  }
  emit_constant(node, tensor.shape(), values, linear, std::move(quantizer));
  return {};
}

/// Blocks of an axis become an axis of their own before it, and a Reshape takes that away again.
void QcdqReader::emit_constant(const Node& node, std::vector<std::int64_t> shape,
                               const std::vector<float>& values, const LinearParameters& linear,
                               Quantizer quantizer) {
  const auto axis = static_cast<std::size_t>(linear.axis);
  const bool has_groups =
      linear.block > 1 && linear.shape[axis] > 1 && shape[axis] == linear.shape[axis] * linear.block;
  const std::string name = name_of(node);
  if (!has_groups) {
    emit(node, out_.constant(name + "_values", Tensor::floats(std::move(shape), values)), quantizer,
         node.outputs[0]);
    return;
  }
  const std::vector<std::int64_t> whole = shape;
  shape[axis] = linear.block;
  shape.insert(shape.begin() + linear.axis, linear.shape[axis]);
  quantizer.parameters.shape = linear.shape;
  quantizer.parameters.shape.insert(quantizer.parameters.shape.begin() + linear.axis + 1, 1);
  quantizer.parameters.scale = linear.scale;
  quantizer.parameters.zero.assign(linear.zero.begin(), linear.zero.end());
  const std::string grouped = out_.fresh_value(
      name + "_groups", {.type = graph::ElementType::kFloat, .shape = Shape(shape.begin(), shape.end())});
  emit(node, out_.constant(name + "_values", Tensor::floats(shape, values)), quantizer, grouped);
  const auto rank = static_cast<std::int64_t>(whole.size());
  out_.node({.op = "Reshape",
             .name = name + "_reshape",
             .inputs = {grouped, out_.constant(name + "_shape", Tensor::ints({rank}, whole))},
             .output = node.outputs[0]});
}

}  // namespace crumb::exporting
