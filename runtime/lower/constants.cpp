#include "runtime/lower/constants.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace crumb::runtime {
namespace {

using graph::ElementType;
using graph::Node;
using graph::Tensor;

bool is_code(const Tensor& tensor) {
  return tensor.type() == ElementType::kInt8 || tensor.type() == ElementType::kUint8;
}

std::optional<Tensor> clipped(const Tensor& codes, const CodeRange& range) {
  if (!is_code(codes)) return std::nullopt;
  std::vector<std::byte> bytes;
  for (const std::int64_t code : codes.to_ints())
    bytes.push_back(static_cast<std::byte>(std::clamp<std::int64_t>(code, range.low, range.high)));
  return Tensor(codes.type(), codes.shape(), std::move(bytes));
}

/// Nearest, ties to even, then the zero point, then clamped; of one scale, or of one for each index of an
/// axis.
std::optional<Tensor> quantized(const Node& node, const ConstantOf& constant) {
  const Tensor* floats = constant(node.inputs[0]);
  const Tensor* scales = node.has_input(1) ? constant(node.inputs[1]) : nullptr;
  const Tensor* zeros = node.has_input(2) ? constant(node.inputs[2]) : nullptr;
  if (!floats || !scales || !zeros || floats->type() != ElementType::kFloat ||
      scales->type() != ElementType::kFloat || !is_code(*zeros) || zeros->size() != scales->size() ||
      node.int_or("block_size", 0) != 0)
    return std::nullopt;
  const std::int64_t stated = node.int_or("axis", 1), rank = floats->rank();
  const std::int64_t axis = stated < 0 ? stated + rank : stated;
  std::size_t inner = 1;
  if (scales->size() != 1) {
    if (axis < 0 || axis >= rank || scales->rank() != 1 ||
        scales->shape()[0] != floats->shape()[static_cast<std::size_t>(axis)])
      return std::nullopt;
    for (std::size_t i = static_cast<std::size_t>(axis) + 1; i < floats->shape().size(); ++i)
      inner *= static_cast<std::size_t>(floats->shape()[i]);
  }
  const std::vector<float> x = floats->to_floats(), by = scales->to_floats();
  const std::vector<std::int64_t> off = zeros->to_ints();
  const bool is_signed = zeros->type() == ElementType::kInt8;
  const float low = is_signed ? -128.0F : 0.0F, high = is_signed ? 127.0F : 255.0F;
  constexpr float kFar = 0x1p20F;
  std::vector<std::byte> bytes(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t of = by.size() == 1 ? 0 : i / inner % by.size();
    float v = x[i] / by[of];
    v = v > -kFar ? v : -kFar;  // NaN, too
    v = std::nearbyint(v < kFar ? v : kFar) + static_cast<float>(off[of]);
    bytes[i] = static_cast<std::byte>(static_cast<int>(std::clamp(v, low, high)));
  }
  return Tensor(zeros->type(), floats->shape(), std::move(bytes));
}

/// (code - zero) * scale in float32, of one scale or of one for each index of the axis.
std::optional<Tensor> dequantized(const Node& node, const ConstantOf& constant) {
  const Tensor* codes = constant(node.inputs[0]);
  const Tensor* scales = node.has_input(1) ? constant(node.inputs[1]) : nullptr;
  const Tensor* zeros = node.has_input(2) ? constant(node.inputs[2]) : nullptr;
  if (!codes || !scales || codes->type() != ElementType::kInt32 || scales->type() != ElementType::kFloat ||
      (node.has_input(2) && (!zeros || zeros->size() != scales->size())) || node.int_or("block_size", 0) != 0)
    return std::nullopt;
  // A vector has one axis; other constants only one scale.
  if (scales->size() != 1 && (codes->rank() != 1 || scales->size() != codes->size())) return std::nullopt;
  const std::vector<float> by = scales->to_floats();
  const std::vector<std::int64_t> whole = codes->to_ints();
  std::vector<std::int64_t> off(by.size(), 0);
  if (zeros) off = zeros->to_ints();
  std::vector<float> values(whole.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t of = by.size() == 1 ? 0 : i;
    values[i] = (static_cast<float>(whole[i]) - static_cast<float>(off[of])) * by[of];
  }
  return Tensor::floats(codes->shape(), values);
}

}  // namespace

std::optional<CodeRange> code_range(const Node& node, const ConstantOf& constant) {
  if (!node.is("Clip") || node.version < 11 || node.has_output(1)) return std::nullopt;
  CodeRange range{-128, 255};
  for (const std::size_t i : {1u, 2u}) {
    if (!node.has_input(i)) continue;
    const Tensor* limit = constant(node.inputs[i]);
    if (!limit || !is_code(*limit) || limit->size() != 1) return std::nullopt;
    (i == 1 ? range.low : range.high) = static_cast<std::int32_t>(limit->to_ints()[0]);
  }
  return range.low < range.high ? std::optional(range) : std::nullopt;
}

std::optional<Tensor> computed_constant(const Node& node, const ConstantOf& constant) {
  if (node.is("Constant")) return graph::constant_of(node);
  if (!node.has_input(0)) return std::nullopt;
  if (node.is("DequantizeLinear")) return dequantized(node, constant);
  if (node.is("QuantizeLinear")) return quantized(node, constant);
  const auto range = code_range(node, constant);
  const Tensor* codes = range ? constant(node.inputs[0]) : nullptr;
  return codes ? clipped(*codes, *range) : std::nullopt;
}

}  // namespace crumb::runtime
