// Certificates on the layers of a frozen graph. Free of LibTorch.
#pragma once

#include <map>
#include <string>

#include "graph/graph.h"
#include "quant/recipe/recipe.h"

namespace crumb::qat {

/// `goals`: of the constrained weights, by the names of their constants. Where there are any, certificates on all layers whose sums are known: on the layers of those weights
/// the width that was asked for, on the others the one they need. Throws Error where
/// a sum does not fit, and where a constrained layer's input is no integer of known range.
graph::Graph certified(graph::Graph graph, const std::map<std::string, AccumulatorGoal>& goals);

}  // namespace crumb::qat
