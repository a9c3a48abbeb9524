// Changes weight specs that nobody chose for one weight so that they fit it.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/quantize/plan.h"
#include "quant/recipe/recipe.h"

namespace crumb::ptq {

/// Pads the last group or block of each row (pad) where a scheme's groups or blocks do not divide a layer's
/// columns, and returns notes with how many layers those are. Treats `left_out` and errors as
/// graph::apply_rules does.
std::vector<std::string> pad_groups(const graph::Graph& graph, Recipe& recipe,
                                    const std::set<std::string>& left_out = {});

/// Gives weights whose codes and one scale for each channel take 32 bits or more for each weight, such as 1 x
/// 1 kernels with one channel, one scale for all; keeps them float if that takes as much. Notes say which.
std::vector<std::string> share_costly_scales(const graph::Graph& graph, graph::QuantPlan& plan);

}  // namespace crumb::ptq
