// Sizes that ONNX files give names. Internal to graph/onnx.
#pragma once

#include <string_view>

#include "graph/graph.h"

namespace crumb::graph {

/// Returns the size of that name; an unknown size for "?", which some exporters write for every unknown size,
/// and for an empty name.
inline Dim named_dim(std::string_view name) { return name == "?" ? Dim() : Dim(std::string(name)); }

}  // namespace crumb::graph
