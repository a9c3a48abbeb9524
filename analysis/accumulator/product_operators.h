// The products that a node adds up, by its operator's row (graph/operator_traits.h). An operator with neither
// products nor the trait kNoProducts is not covered: nobody knows what it adds up.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/operator_traits.h"

namespace crumb::analysis {

/// Why a node's sums are unknown; nothing where it has rules, or adds up no products.
std::optional<std::string> why_unknown_operator(const graph::Node& node);

/// Einsum's equation for two operands.
struct Contraction {
  std::string a, b, out;  ///< labels of each axis; an ellipsis is '.', once, for all of its axes
  std::string summed;     ///< labels of a and b that the result does not have

  /// Which axes of an operand with these labels and this many axes are summed.
  std::vector<bool> summed_axes(const std::string& labels, std::size_t rank) const;
};

/// A Failure where there are not two operands, where an operand has a label twice, or where only one operand
/// has a label that is summed: a result is then not a sum of products of one element of each.
Result<Contraction> contraction_of(const graph::Node& node);

}  // namespace crumb::analysis
