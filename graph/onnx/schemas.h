// The operators that the ONNX library knows, together with QONNX's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

/// Registers QONNX's operators (inputs, attributes, and that they keep shapes) and Choose (graph/choose.h)
/// with the ONNX library, so that its checker and shape inference accept them. Does so once; any number of
/// threads may call it.
void register_qonnx_schemas();

/// Returns domain and name of every operator of every version that the library knows, some more than once.
std::vector<std::pair<std::string, std::string>> standard_operators();

/// For ONNX's operator `op` in operator set `opset`: the version that introduced its current definition
/// (nothing where it does not exist or is deprecated), whether it has an attribute, and how many inputs it
/// takes at most and at least.
std::optional<std::int64_t> since_version(const std::string& op, std::int64_t opset);
bool schema_has_attribute(const std::string& op, std::int64_t opset, const std::string& attribute);
std::size_t most_inputs(const std::string& op, std::int64_t opset);
std::size_t least_inputs(const std::string& op, std::int64_t opset);

/// Returns the default of an attribute; nothing where the operator set gives none.
std::optional<Attribute> default_attribute(const std::string& op, std::int64_t opset,
                                           const std::string& attribute);

enum class Side : std::uint8_t { kInput, kOutput };

/// Whether input or output `i` may have this type; true where the operator set has no such input.
bool schema_takes(const std::string& op, std::int64_t opset, Side side, std::size_t i, ElementType type);

}  // namespace crumb::graph
