// The operators that the ONNX library knows, with those of QONNX added to them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

/// Tells the ONNX library QONNX's operators (their inputs, attributes, and that shapes pass through), so that its
/// checker and shape inference take them. Once, from however many threads.
void register_qonnx_schemas();

/// Domain and name of every operator of every version that the library knows, some more than once.
std::vector<std::pair<std::string, std::string>> standard_operators();

/// Of ONNX's operator `op` in operator set `opset`: the version since which it is as it is there (nothing where it
/// does not exist or is deprecated), whether it has an attribute, how many inputs it takes at most and at least.
std::optional<std::int64_t> since_version(const std::string& op, std::int64_t opset);
bool schema_has_attribute(const std::string& op, std::int64_t opset, const std::string& attribute);
std::size_t most_inputs(const std::string& op, std::int64_t opset);
std::size_t least_inputs(const std::string& op, std::int64_t opset);

/// What an attribute is that a node does not have; nothing where the operator set names no default.
std::optional<Attribute> default_attribute(const std::string& op, std::int64_t opset,
                                           const std::string& attribute);

enum class Side : std::uint8_t { kInput, kOutput };

/// Whether input or output `i` may be of this type. Where the operator set has no such input: true.
bool schema_takes(const std::string& op, std::int64_t opset, Side side, std::size_t i, ElementType type);

}  // namespace crumb::graph
