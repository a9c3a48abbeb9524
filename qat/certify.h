// Puts certificates on the layers of a frozen graph. Free of LibTorch.
#pragma once

#include <map>
#include <string>

#include "graph/graph.h"
#include "quant/recipe/recipe.h"

namespace crumb::qat {

/// Returns the graph with certificates on all layers whose sums are known, or without any where `goals` is
/// empty. `goals`: those of the constrained weights, by the names of their constants. The layers of these
/// weights get the width that was asked for, the others the width that they need. Throws Error where a sum
/// does not fit, and where a constrained layer's input is not an integer of known range.
graph::Graph certified(graph::Graph graph, const std::map<std::string, AccumulatorGoal>& goals);

}  // namespace crumb::qat
