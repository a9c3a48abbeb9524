// Values that a few nodes make of constants, as quantized files have them in front of their layers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "graph/graph.h"

namespace crumb::runtime {

/// The constant of a value's name, or null.
using ConstantOf = std::function<const graph::Tensor*(const std::string&)>;

/// The least and the greatest code that a Clip of codes of eight bits lets through.
struct CodeRange {
  std::int32_t low = 0, high = 0;
};

/// Of a Clip whose limits are constants of eight bits; nothing for other nodes, and where no code is left.
std::optional<CodeRange> code_range(const graph::Node& node, const ConstantOf& constant);

/// What the node makes, where it is a Constant, a QuantizeLinear of constant floats to eight bits, a Clip of
/// constant codes of eight bits, or a DequantizeLinear of constants of 32 bits, such as biases. The same bits
/// as the operators compute.
std::optional<graph::Tensor> computed_constant(const graph::Node& node, const ConstantOf& constant);

}  // namespace crumb::runtime
