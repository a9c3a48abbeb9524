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

}  // namespace

Why QcdqWriter::constant_quant(std::size_t at, const ConstantValue& data, const QuantParameters& parameters) {
  const Node& node = graph_.nodes[at];
  if (!parameters.has_whole_zero()) {
    return "is of a constant and has a zero point that is no whole number, which no integer type has";
  }
  if (!parameters.has_whole_bits()) return "has a bit width that is no whole number from 1 to 32";
  const IntegerRange range = parameters.range();
  if (range.bits == 1 && range.narrow) return "has one bit, narrow: 0 alone";
  const auto linear = linear_parameters(parameters.scale, parameters.zero,
                                        Shape(data.shape.begin(), data.shape.end()), opset_);
  if (!linear.ok()) return linear.failure().message;
  const auto container = container_of(range, linear.value(), true);
  if (!container.ok()) return container.failure().message;
  auto made = graph::quantize(operand(data), operand(parameters.scale), operand(parameters.zero),
                              parameters.format, parameters.mode);
  if (!made.ok()) return made.failure().message;
  Chain chain = chain_for(node);
  chain.container = container.value();
  chain.bounds = range.bounds();
  chain.is_bipolar = parameters.format.is_bipolar();
  chain.parameters = linear.value();
  const auto reshape = merging_reshape(node, data.shape, chain.parameters);
  return constant(node, data.shape, made.value(), std::move(chain), reshape);
}

Why QcdqWriter::constant_bipolar(const Node& node, const ConstantValue& data, const ConstantValue& scale) {
  const auto linear = linear_parameters(scale, ConstantValue{.values = {0}},
                                        Shape(data.shape.begin(), data.shape.end()), opset_);
  if (!linear.ok()) return linear.failure().message;
  auto made = graph::quantize_bipolar(operand(data), operand(scale));
  if (!made.ok()) return made.failure().message;
  Chain chain = chain_for(node);
  chain.bounds = {-1, 1};
  chain.is_bipolar = true;
  chain.parameters = linear.value();
  const auto reshape = merging_reshape(node, data.shape, chain.parameters);
  return constant(node, data.shape, made.value(), std::move(chain), reshape);
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

Why QcdqWriter::constant(const Node& node, const std::vector<std::int64_t>& shape,
                         const graph::Quantized& made, Chain chain, std::optional<std::size_t> reshape) {
  const BroadcastParameters spread = broadcast(chain.parameters, Shape(shape.begin(), shape.end()));
  auto at = StridedIndex::broadcast(shape, spread.shape);
  if (!at) return "has a scale that does not broadcast to its constant";
  const bool as_floats = options_.weights_as_float && chain.container != ElementType::kInt32;
  std::vector<std::int64_t> codes(made.integers.size());
  for (std::size_t i = 0; i < codes.size(); ++i, at->next()) {
    if (!std::isfinite(made.integers[i])) return "is of a constant that holds NaN";
    // Only 2^31 is beyond the type that carries it: the upper bound of 32 bits in float32.
    codes[i] = std::min(static_cast<std::int64_t>(made.integers[i]), bounds_of(chain.container).high);
    const float scale = spread.scale[at->at()], zero = spread.zero[spread.zero.size() == 1 ? 0 : at->at()];
    if (dequantized(codes[i], zero, scale) != made.values[i]) {
      return "has a scale that is no float32: DequantizeLinear would give other values";
    }
    if (as_floats &&
        quantized_linearly(made.values[i], scale, zero, chain.bounds) != static_cast<double>(codes[i])) {
      return "makes values that QuantizeLinear would round to other integers";
    }
  }
  std::vector<std::int64_t> written = shape;
  if (reshape) {
    const Node& next = graph_.nodes[*reshape];
    const auto axis = static_cast<std::size_t>(chain.parameters.axis);
    written[axis - 1] *= written[axis];
    written.erase(written.begin() + chain.parameters.axis);
    chain.parameters.shape.erase(chain.parameters.shape.begin() + chain.parameters.axis);
    chain.parameters.axis -= 1;
    chain.output = next.outputs[0];
    chain.known.shape = Shape(written.begin(), written.end());
    done_.insert(*reshape);
  }
  replaces(node);
  chain.quantizes = as_floats;
  chain.data = as_floats ? out_.constant(chain.name + "_values", graph::Tensor::floats(written, made.values))
                         : out_.constant(chain.name + "_integers", integers(chain.container, written, codes));
  emit(chain);
  if (chain.is_bipolar) {
    bipolar_names_[out_.last_node_name()] = node.op == "BipolarQuant" ? "BipolarQuant" : "Quant";
    report_.bipolar.push_back(name_of(node));
  }
  return {};
}

}  // namespace crumb::exporting
