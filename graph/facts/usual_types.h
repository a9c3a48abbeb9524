// Data types by the rules of qonnx's own InferDataTypes. Internal to graph/qonnx.
#pragma once

#include <map>
#include <string>

#include "graph/datatypes.h"
#include "graph/facts/constant_values.h"

namespace crumb::graph {

/// The annotation of a value; nothing where it has none. Throws Error, which names the value, for one that cannot be
/// read.
std::optional<DataType> annotated_type(const Graph& graph, const std::string& value);

/// What products and sums are taken for: 32 bits, whatever the length (a rule of qonnx's, no bound).
DataType type_of_product(std::span<const DataType> operands, bool subtracts);

bool is_scaled_integer(const DataType& type);

/// TypeRules::kQonnx.
std::map<std::string, DataType> usual_types(const Graph& graph, const ConstantValues& constants);

}  // namespace crumb::graph
