// Constants that stages compute with must be numbers: what comes of an inf or a NaN would be said of what it spoils.
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace crumb::ptq {

/// Throws Error where the constant of that name holds inf or NaN; says how many and where the first stands. Nothing where the
/// graph has no such constant.
void require_finite(std::string_view stage, const graph::Graph& graph, const std::string& name);

}  // namespace crumb::ptq
