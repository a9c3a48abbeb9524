// Specs of weights that nobody chose for the weight at hand, made to fit it.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/quantize/plan.h"
#include "quant/recipe/recipe.h"

namespace crumb::ptq {

/// Of a scheme, whose groups or blocks need not divide every layer's columns: where they do not, the last one of a row is smaller (pad),
/// and a note says for how many. `left_out` and errors: graph::apply_rules.
std::vector<std::string> pad_groups(const graph::Graph& graph, Recipe& recipe,
                                    const std::set<std::string>& left_out = {});

/// Weights whose codes with one scale for each channel take 32 bits or more, as kernels of 1 x 1 with one channel: one scale for all,
/// or, where that takes as much, they stay. A note says which.
std::vector<std::string> share_costly_scales(const graph::Graph& graph, graph::QuantPlan& plan);

}  // namespace crumb::ptq
