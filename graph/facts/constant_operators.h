// The operators that ConstantValues computes. Internal to graph/qonnx.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "graph/facts/constant_values.h"

namespace crumb::graph {

using ConstantInput = std::shared_ptr<const ConstantValue>;
using ConstantInputs = std::vector<ConstantInput>;  // null where one is left out
using MadeConstant = std::optional<ConstantValue>;

/// The type's numbers make NumPy compute in float64.
bool is_wide(ElementType type);

/// Of a constant, or what is known of the value; kUnknown where nothing is.
ElementType element_type_in(const Graph& graph, const std::string& value);

/// Integers beyond 2^53 are rounded. Nothing for texts and complex numbers.
MadeConstant constant_of(const Tensor& tensor);

/// Shape and Size of a value whose sizes are known.
MadeConstant known_shape(const Graph& graph, const Node& node);

/// A node's first output; nothing where the operator is not known. Throws Error, which names the node, where the
/// parameters of a quantizer do not fit.
MadeConstant constant_made_by(const Graph& graph, const Node& node, const ConstantInputs& inputs);

// constant_arithmetic.cpp: results of this type, which is nothing where it is unknown.
MadeConstant cast_to(ElementType type, const ConstantValue& x);
MadeConstant computed_by(ElementType type, const Node& node, const ConstantInputs& inputs);

// constant_quantizers.cpp: operators of QONNX; QuantizeLinear and DequantizeLinear.
MadeConstant constant_from_qonnx(const Node& node, const ConstantInputs& inputs);
MadeConstant quantized_linearly(const Graph& graph, const Node& node, const ConstantInputs& inputs);
MadeConstant dequantized_linearly(const Graph& graph, const Node& node, const ConstantInputs& inputs);

}  // namespace crumb::graph
