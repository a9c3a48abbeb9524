// Checks constants that stages compute with: otherwise an inf or a NaN would be reported for the results that
// it spoils.
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace crumb::ptq {

/// Throws Error, with the count and the first index, where the constant of that name holds inf or NaN. Does
/// nothing where the graph has no such constant.
void require_finite(std::string_view stage, const graph::Graph& graph, const std::string& name);

}  // namespace crumb::ptq
