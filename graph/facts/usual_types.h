// Data types by the rules of qonnx's own InferDataTypes. Internal to graph/facts.
#pragma once

#include <map>
#include <string>

#include "graph/datatypes.h"
#include "graph/facts/constant_values.h"

namespace crumb::graph {

/// Returns the annotation of a value; nothing where it has none. Throws Error, which names the value, where
/// it cannot be parsed.
std::optional<DataType> annotated_type(const Graph& graph, const std::string& value);

/// Returns the type that qonnx gives products and sums: 32 bits, whatever the length (its rule, not a bound).
DataType type_of_product(std::span<const DataType> operands, bool subtracts);

bool is_scaled_integer(const DataType& type);

/// Returns the types of TypeRules::kQonnx.
std::map<std::string, DataType> usual_types(const Graph& graph, const ConstantValues& constants);

}  // namespace crumb::graph
