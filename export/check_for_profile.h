// Whether a consumer's tool takes a network, asked before the work that it would take to find out.
#pragma once

#include <string>

#include "graph/graph.h"

namespace crumb::exporting {

/// Throws Error, which names node, reason and flag, where the profile's tool would not take the graph as it
/// is, or would compute something else. Scales may be any: what is looked at is their kind.
void check_for_profile(const graph::Graph& graph, const std::string& profile);

}  // namespace crumb::exporting
