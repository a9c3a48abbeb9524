// The products that a node adds up, by its operator's row (graph/operator_traits.h). An operator that has neither products
// nor the trait kNoProducts is not covered: what it adds up is not known.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/operator_traits.h"

namespace crumb::analysis {

/// Why nothing is known of a node's sums; nothing where it has rules, or adds up no products.
std::optional<std::string> why_unknown_operator(const graph::Node& node);

/// Einsum's equation for two operands.
struct Contraction {
  std::string a, b, out;  ///< labels of each axis; an ellipsis is '.', once, for all of its axes
  std::string summed;     ///< labels of a and b that the result does not have

  /// Of an operand with these labels and so many axes.
  std::vector<bool> summed_axes(const std::string& labels, std::size_t rank) const;
};

/// A Failure where operands are others than two, a label stands twice in one of them, or where one operand alone has a
/// label that is summed over: then a result is no sum of products of one element of each.
Result<Contraction> contraction_of(const graph::Node& node);

}  // namespace crumb::analysis
