// Sizes that ONNX files name. Internal to graph/onnx.
#pragma once

#include <string_view>

#include "graph/graph.h"

namespace crumb::graph {

/// The size of that name; nothing of "?", which some exporters write for every size that they do not know,
/// and of an empty name.
inline Dim named_dim(std::string_view name) { return name == "?" ? Dim() : Dim(std::string(name)); }

}  // namespace crumb::graph
