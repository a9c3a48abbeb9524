#include "runtime/lower/known.h"

#include <algorithm>
#include <cmath>

namespace crumb::runtime {
namespace {

using graph::ElementType;
using graph::Links;
using graph::Node;
using graph::Tensor;
using Ints = std::vector<std::int64_t>;

}  // namespace

ElementType type_of(const UniformQuantizer& quantizer) {
  if (quantizer.bipolar || (quantizer.low >= -128 && quantizer.high <= 127 && quantizer.low < 0))
    return ElementType::kInt8;
  return quantizer.low >= 0 && quantizer.high <= 255 ? ElementType::kUint8 : ElementType::kUnknown;
}

UniformQuantizer narrowed(UniformQuantizer quantizer, const CodeRange& range) {
  quantizer.low = std::max(quantizer.low, range.low);
  quantizer.high = std::min(quantizer.high, range.high);
  return quantizer;
}

/// The DequantizeLinear of constants that makes a value, or null.
const Node* Known::dequantized(const std::string& value) const {
  const std::size_t producer = links_.producer(value);
  if (producer == Links::kNone) return nullptr;
  const Node& node = graph_.nodes[producer];
  const bool is_it = node.is("DequantizeLinear") && node.int_or("block_size", 0) == 0 &&
                     constant(node.inputs[0]) && constant(node.inputs[1]) &&
                     (!node.has_input(2) || constant(node.inputs[2]));
  return is_it ? &node : nullptr;
}

bool Known::is_coded_weight(const std::string& value) const {
  return graph_.quantized.contains(value) || dequantized(value);
}

Ints Known::weight_shape(const std::string& value) const {
  const auto kept = graph_.quantized.find(value);
  return kept != graph_.quantized.end() ? kept->second.shape()
                                        : constant(dequantized(value)->inputs[0])->shape();
}

Result<IntegerWeight> Known::weight_of(const std::string& value, std::size_t output_axis) const {
  const auto kept = graph_.quantized.find(value);
  if (kept != graph_.quantized.end()) return integer_weight(kept->second, output_axis);
  const Node& node = *dequantized(value);
  const Tensor &codes = *constant(node.inputs[0]), &scales = *constant(node.inputs[1]);
  const std::int64_t stated = node.int_or("axis", 1), rank = codes.rank();
  if (scales.size() != 1 && (stated < 0 ? stated + rank : stated) != static_cast<std::int64_t>(output_axis))
    return Failure{"the scales of its weights follow another axis than its output channels"};
  return integer_weight(codes, scales, node.has_input(2) ? constant(node.inputs[2]) : nullptr, output_axis);
}

const Tensor* Known::constant(const std::string& value, int nodes) const {
  if (const Tensor* initializer = graph_.constant(value)) return initializer;
  const std::size_t producer = links_.producer(value);
  if (producer == Links::kNone || nodes == 0) return nullptr;
  const auto found = computed_.find(value);
  if (found != computed_.end()) return &found->second;
  const auto made = computed_constant(graph_.nodes[producer],
                                      [&](const std::string& name) { return constant(name, nodes - 1); });
  return made ? &computed_.emplace(value, *made).first->second : nullptr;
}

std::optional<Known::ClipNode> Known::clip_of_codes(const std::string& codes) const {
  const auto taker = only_consumer(codes);
  if (!taker || graph_.nodes[*taker].inputs[0] != codes) return std::nullopt;
  const auto range =
      code_range(graph_.nodes[*taker], [this](const std::string& name) { return constant(name); });
  return range ? std::optional(ClipNode{*taker, *range}) : std::nullopt;
}

std::optional<double> Known::number(const Node& node, std::size_t i) const {
  if (!node.has_input(i)) return std::nullopt;
  const Tensor* tensor = constant(node.inputs[i]);
  if (!tensor || tensor->size() != 1 || tensor->type() == ElementType::kDouble) return std::nullopt;
  return tensor->to_floats()[0];
}

/// A whole number of at most 16 bits.
std::optional<std::int32_t> Known::integer(const Node& node, std::size_t i) const {
  const auto found = number(node, i);
  if (!found || std::fabs(*found) > 32767 || std::trunc(*found) != *found) return std::nullopt;
  return static_cast<std::int32_t>(*found);
}

std::optional<UniformQuantizer> Known::quantizer_of(const Node& node) const {
  if (node.outputs.size() != 1 || node.inputs.size() < 2) return std::nullopt;
  const auto scale = number(node, 1);
  if (!scale || !(*scale > 0x1p-100) || !(*scale < 0x1p100)) return std::nullopt;
  if (node.is("BipolarQuant", graph::kQonnxDomain))
    return UniformQuantizer{.scale = *scale, .low = -1, .high = 1, .bipolar = true};
  if (!node.is("Quant", graph::kQonnxDomain) && !node.is("IntQuant", graph::kQonnxDomain))
    return std::nullopt;
  const auto zero = integer(node, 2), bits = integer(node, 3);
  const std::string rounding = node.text_or("rounding_mode", "ROUND");
  if (!zero || !bits || *bits < 1 || *bits > 8 || (rounding != "ROUND" && rounding != "HALF_EVEN"))
    return std::nullopt;
  const bool is_signed = node.int_or("signed", 1) != 0, narrow = node.int_or("narrow", 0) != 0;
  if (is_signed && *bits == 1) {
    if (*zero != 0) return std::nullopt;
    return UniformQuantizer{.scale = *scale, .low = -1, .high = 1, .bipolar = true};
  }
  const std::int32_t all = 1 << (*bits - (is_signed ? 1 : 0));
  UniformQuantizer quantizer{.scale = *scale, .zero = *zero};
  quantizer.low = is_signed ? -all + (narrow ? 1 : 0) : 0;
  quantizer.high = all - 1 - (!is_signed && narrow ? 1 : 0);
  const bool fits = quantizer.low < quantizer.high && quantizer.zero >= -255 && quantizer.zero <= 255;
  return fits && type_of(quantizer) != ElementType::kUnknown ? std::optional(quantizer) : std::nullopt;
}

std::optional<UniformQuantizer> Known::dequantizer_of(const Node& node) const {
  if (!node.is("DequantizeLinear") || node.int_or("block_size", 0) != 0 || constant(node.inputs[0]))
    return std::nullopt;
  auto quantizer = linear_quantizer(node, type_of_value(node.inputs[0]));
  const std::size_t producer = links_.producer(node.inputs[0]);
  if (!quantizer || producer == Links::kNone) return quantizer;
  const auto range =
      code_range(graph_.nodes[producer], [this](const std::string& name) { return constant(name); });
  return range ? narrowed(*quantizer, *range) : quantizer;
}

std::optional<UniformQuantizer> Known::linear_quantizer(const Node& node, ElementType type) const {
  const auto scale = number(node, 1);
  if (!scale || !(*scale > 0x1p-100) || !(*scale < 0x1p100)) return std::nullopt;
  const Tensor* of_scale = constant(node.inputs[1]);
  if (of_scale->type() != ElementType::kFloat) return std::nullopt;
  if (type == ElementType::kUnknown && node.has_input(2) && constant(node.inputs[2]))
    type = constant(node.inputs[2])->type();
  if (type != ElementType::kInt8 && type != ElementType::kUint8) return std::nullopt;
  const auto zero = node.has_input(2) ? integer(node, 2) : 0;
  if (!zero) return std::nullopt;
  const bool is_signed = type == ElementType::kInt8;
  return UniformQuantizer{.scale = *scale,
                          .zero = *zero,
                          .low = is_signed ? -128 : 0,
                          .high = is_signed ? 127 : 255,
                          .ties_with_zero = false};
}

ElementType Known::type_of_value(const std::string& value) const {
  const graph::Value* known = graph_.find(value);
  return known ? known->type : ElementType::kUnknown;
}

std::optional<std::size_t> Known::only_consumer(const std::string& value) const {
  const auto consumers = links_.consumers(value);
  if (consumers.size() != 1 || links_.is_output(value)) return std::nullopt;
  return consumers[0];
}

}  // namespace crumb::runtime
