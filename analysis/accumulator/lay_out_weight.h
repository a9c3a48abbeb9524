// Arranges a constant weight as the rows of its product. Internal to analysis/accumulator.
#pragma once

#include <string>

#include "analysis/accumulator/layers.h"
#include "analysis/accumulator/weight_codes.h"

namespace crumb::analysis {

/// Fills in the members of `layer` about its weight, operand `at` (0 or 1) of a node with this rule. Returns
/// why the weight has no rows; "" where it has. Throws Error where the node is not sound.
std::string lay_out_weight(const graph::Node& node, const graph::ProductRule& rule, std::size_t at,
                           WeightCodes weight, ProductLayer& layer);

}  // namespace crumb::analysis
