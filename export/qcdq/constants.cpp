// Quantizers of constants: their integers as initializers.
#include <algorithm>
#include <cmath>

#include "export/qcdq/qcdq_writer.h"
#include "graph/strided_index.h"

namespace crumb::exporting {

using graph::ConstantValue;
using graph::ElementType;
using graph::Node;
using graph::Shape;
using graph::StridedIndex;

namespace {

graph::QuantOperand operand(const ConstantValue& value) {
  return {.values = value.values, .shape = value.shape, .wide = value.wide};
}

/// What DequantizeLinear makes of a code, in float32.
float dequantized(std::int64_t code, float zero, float scale) {
  return (static_cast<float>(code) - zero) * scale;
}

/// What QuantizeLinear and Clip make of a float.
double quantized_linearly(float x, float scale, float zero, const IntegerBounds& bounds) {
  const double q = graph::rounded(x / scale, graph::QuantRounding::kHalfEven) + static_cast<double>(zero);
  return std::clamp(q, static_cast<double>(bounds.low), static_cast<double>(bounds.high));
}

/// Why a quantizer of ONNX's cannot say the code of a value.
Why why_not_linear(std::int64_t code, float value, float scale, float zero, bool as_floats,
                   const IntegerBounds& bounds) {
  if (dequantized(code, zero, scale) != value)
    return "has a scale that is no float32: DequantizeLinear would give other values";
  if (as_floats && quantized_linearly(value, scale, zero, bounds) != static_cast<double>(code))
    return "makes values that QuantizeLinear would round to other integers";
  return {};
}

std::vector<std::int64_t> shape_of_constant(const graph::Graph& graph, const graph::ConstantValues& constants,
                                            const std::string& value) {
  if (const graph::Tensor* tensor = graph.constant(value)) return tensor->shape();
  return constants.find(value).value_or(ConstantValue{}).shape;
}

}  // namespace

/// Of an initializer, or of what can be computed from some.
bool QcdqWriter::has_constant_data(const Node& node) const {
  return graph_.constant(node.inputs[0]) || constants_.find(node.inputs[0]).has_value();
}

Why QcdqWriter::constant_quant(std::size_t at, const QuantParameters& parameters) {
  const Node& node = graph_.nodes[at];
  const graph::ConstantParts data(graph_, constants_, links_, node.inputs[0]);
  const std::vector<std::int64_t> shape = shape_of_constant(graph_, constants_, node.inputs[0]);
  if (!parameters.has_whole_zero()) {
    return "is of a constant and has a zero point that is no whole number, which no integer type has";
  }
  if (!parameters.has_whole_bits()) return "has a bit width that is no whole number from 1 to 32";
  const IntegerRange range = parameters.range();
  if (range.bits == 1 && range.narrow) return "has one bit, narrow: 0 alone";
  const auto linear =
      linear_parameters(parameters.scale, parameters.zero, Shape(shape.begin(), shape.end()), opset_);
  if (!linear.ok()) return linear.failure().message;
  const auto container = container_of(range, linear.value(), true);
  if (!container.ok()) return container.failure().message;
  const auto made_of = [&](const ConstantValue& part, std::size_t begin, std::size_t end) {
    const ConstantValue scale = graph::rows_of(parameters.scale, shape, begin, end),
                        zero = graph::rows_of(parameters.zero, shape, begin, end);
    return graph::quantize(operand(part), operand(scale), operand(zero), parameters.format, parameters.mode);
  };
  Chain chain = chain_for(node);
  chain.container = container.value();
  chain.bounds = range.bounds();
  chain.is_bipolar = parameters.format.is_bipolar();
  chain.parameters = linear.value();
  const auto reshape = merging_reshape(node, shape, chain.parameters);
  return constant(node, data, shape, made_of, std::move(chain), reshape);
}

Why QcdqWriter::constant_bipolar(const Node& node, const ConstantValue& scale) {
  const graph::ConstantParts data(graph_, constants_, links_, node.inputs[0]);
  const std::vector<std::int64_t> shape = shape_of_constant(graph_, constants_, node.inputs[0]);
  const auto linear =
      linear_parameters(scale, ConstantValue{.values = {0}}, Shape(shape.begin(), shape.end()), opset_);
  if (!linear.ok()) return linear.failure().message;
  const auto made_of = [&](const ConstantValue& part, std::size_t begin, std::size_t end) {
    const ConstantValue rows = graph::rows_of(scale, shape, begin, end);
    return graph::quantize_bipolar(operand(part), operand(rows));
  };
  Chain chain = chain_for(node);
  chain.bounds = {-1, 1};
  chain.is_bipolar = true;
  chain.parameters = linear.value();
  const auto reshape = merging_reshape(node, shape, chain.parameters);
  return constant(node, data, shape, made_of, std::move(chain), reshape);
}

/// The Reshape that alone takes the quantizer's [..., G, g, ...], one scale to each g, and makes [..., G * g,
/// ...].
std::optional<std::size_t> QcdqWriter::merging_reshape(const Node& node,
                                                       const std::vector<std::int64_t>& shape,
                                                       const LinearParameters& parameters) const {
  const auto axis = static_cast<std::size_t>(parameters.axis);
  if (parameters.block == 0 || axis == 0 || parameters.shape[axis] != 1) return {};
  const auto consumers = links_.consumers(node.outputs[0]);
  if (consumers.size() != 1 || links_.is_output(node.outputs[0])) return {};
  const Node& next = graph_.nodes[consumers[0]];
  if (!next.is("Reshape") || next.inputs[0] != node.outputs[0]) return {};
  Shape merged(shape.begin(), shape.end());
  merged[axis - 1] = shape[axis - 1] * shape[axis];
  merged.erase(merged.begin() + parameters.axis);
  const graph::Value* known = graph_.find(next.outputs[0]);
  return known && known->shape == merged ? std::optional(consumers[0]) : std::nullopt;
}

void QcdqWriter::merge_blocks(std::size_t reshape, std::vector<std::int64_t>& shape, Chain& chain) {
  const auto axis = static_cast<std::size_t>(chain.parameters.axis);
  shape[axis - 1] *= shape[axis];
  shape.erase(shape.begin() + chain.parameters.axis);
  chain.parameters.shape.erase(chain.parameters.shape.begin() + chain.parameters.axis);
  chain.parameters.axis -= 1;
  chain.output = graph_.nodes[reshape].outputs[0];
  chain.known.shape = Shape(shape.begin(), shape.end());
  done_.insert(reshape);
}

Why QcdqWriter::constant(const Node& node, const graph::ConstantParts& data,
                         const std::vector<std::int64_t>& shape, const MadeOfRows& made_of, Chain chain,
                         std::optional<std::size_t> reshape) {
  const BroadcastParameters spread = broadcast(chain.parameters, Shape(shape.begin(), shape.end()));
  auto at = StridedIndex::broadcast(shape, spread.shape);
  if (!at) return "has a scale that does not broadcast to its constant";
  const bool as_floats = options_.weights_as_float && chain.container != ElementType::kInt32;
  const unsigned bits = graph::info(chain.container).bits;
  std::vector<std::int64_t> codes;  // not yet in `bytes`
  std::vector<std::byte> bytes;
  std::vector<float> values;
  const auto size = static_cast<std::size_t>(graph::count_elements(shape).take());
  if (as_floats) values.reserve(size);
  if (!as_floats) bytes.reserve((size * bits + 7) / 8);
  const auto pack = [&](std::size_t count) {
    const graph::Tensor piece = graph::Tensor::ints(chain.container, {static_cast<std::int64_t>(count)},
                                                    std::span(codes).first(count));
    bytes.insert(bytes.end(), piece.bytes().begin(), piece.bytes().end());
    codes.erase(codes.begin(), codes.begin() + static_cast<std::ptrdiff_t>(count));
  };
  for (std::size_t part = 0; part < data.count(); ++part) {
    const auto x = data.part(part);
    if (!x) return "is of a constant that cannot be computed";
    const auto [begin, end] = data.is_cut() ? data.rows(part) : std::pair(std::size_t{0}, std::size_t{0});
    const auto made = data.is_cut() ? made_of(*x, begin, end)
                                    : made_of(*x, 0, shape.empty() ? 1 : static_cast<std::size_t>(shape[0]));
    if (!made.ok()) return made.failure().message;
    const graph::Quantized& found = made.value();
    const std::size_t first = codes.size();
    for (std::size_t i = 0; i < found.integers.size(); ++i, at->next()) {
      if (!std::isfinite(found.integers[i])) return "is of a constant that holds NaN";
      // Only 2^31 is beyond the type that carries it: the upper bound of 32 bits in float32.
      codes.push_back(
          std::min(static_cast<std::int64_t>(found.integers[i]), bounds_of(chain.container).high));
      const std::int64_t code = codes[first + i];
      const float scale = spread.scale[at->at()], zero = spread.zero[spread.zero.size() == 1 ? 0 : at->at()];
      if (Why why = why_not_linear(code, found.values[i], scale, zero, as_floats, chain.bounds)) return why;
    }
    if (as_floats) values.insert(values.end(), found.values.begin(), found.values.end());
    if (as_floats)
      codes.clear();
    else
      pack(bits < 8 ? codes.size() / (8 / bits) * (8 / bits) : codes.size());  // whole bytes
  }
  if (!as_floats) pack(codes.size());
  std::vector<std::int64_t> written = shape;
  if (reshape) merge_blocks(*reshape, written, chain);
  replaces(node);
  chain.quantizes = as_floats;
  chain.data = as_floats ? out_.constant(chain.name + "_values", graph::Tensor::floats(written, values))
                         : out_.constant(chain.name + "_integers",
                                         graph::Tensor(chain.container, written, std::move(bytes)));
  emit(chain);
  if (chain.is_bipolar) {
    bipolar_names_[out_.last_node_name()] = node.op == "BipolarQuant" ? "BipolarQuant" : "Quant";
    report_.bipolar.push_back(name_of(node));
  }
  return {};
}

}  // namespace crumb::exporting
