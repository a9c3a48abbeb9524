// The operators that ConstantValues computes. Internal to graph/facts.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "graph/facts/constant_values.h"

namespace crumb::graph {

using ConstantInput = std::shared_ptr<const ConstantValue>;
using ConstantInputs = std::vector<ConstantInput>;  // null for an input that is left out
using MadeConstant = std::optional<ConstantValue>;

/// Whether NumPy computes in float64 with numbers of this type.
bool is_wide(ElementType type);

/// Returns the element type of a constant, or of another value where it is known; else kUnknown.
ElementType element_type_in(const Graph& graph, const std::string& value);

/// Returns a tensor's numbers, integers beyond 2^53 rounded; nothing for strings and complex numbers.
MadeConstant constant_of(const Tensor& tensor);

/// Returns what Shape or Size gives for a value of known sizes.
MadeConstant known_shape(const Graph& graph, const Node& node);

/// Returns a node's first output; nothing where the operator is not implemented here. Throws Error, which
/// names the node, where the parameters of a quantizer do not fit.
MadeConstant constant_made_by(const Graph& graph, const Node& node, const ConstantInputs& inputs);

/// The axis that a number of ONNX's means, negative ones from behind; nothing where there is none.
std::optional<std::size_t> axis_in(std::int64_t axis, std::size_t rank);

/// The shape that both broadcast to; nothing where they do not.
std::optional<std::vector<std::int64_t>> broadcast_shape(std::span<const std::int64_t> a,
                                                         std::span<const std::int64_t> b);

// In constant_arithmetic.cpp. Results have this type; nothing where it is unknown.
MadeConstant cast_to(ElementType type, const ConstantValue& x);
MadeConstant computed_by(ElementType type, const Node& node, const ConstantInputs& inputs);

// In constant_quantizers.cpp: QONNX's operators; QuantizeLinear and DequantizeLinear.
MadeConstant constant_from_qonnx(const Node& node, const ConstantInputs& inputs);
MadeConstant quantized_linearly(const Graph& graph, const Node& node, const ConstantInputs& inputs);
MadeConstant dequantized_linearly(const Graph& graph, const Node& node, const ConstantInputs& inputs);

}  // namespace crumb::graph
