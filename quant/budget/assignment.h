// One option for each of many items, so that costs stay within a budget and the sum of losses is least: the
// multiple-choice knapsack.
//
// A linear relaxation gives a price of a unit of cost, and with it a lower bound. What is left is searched
// through: options whose price-corrected loss ("regret") cannot lead below the best that is known are left
// out, the rest are combined item by item, of two combinations the one that is neither cheaper nor better is
// dropped. Where one large item keeps relaxation and best far apart, its options are tried one after the
// other. The result is exact, up to rounding, unless the search is cut short by Limits; the bound says by how
// much it may be off then.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace crumb {

struct AssignmentOption {
  uint64_t cost = 0;
  double loss = 0;  ///< finite, at least 0
};

struct Assignment {
  std::vector<uint32_t> choice;  ///< an option of each item
  uint64_t cost = 0;
  double loss = 0;
  double bound = 0;  ///< no choice within the budget loses less; `loss` where the choice is the best
};

/// How much is searched through, in combinations.
struct AssignmentLimits {
  size_t width = size_t{1} << 15;  ///< kept after each item
  size_t all = size_t{1} << 23;    ///< looked at altogether
};

/// Nothing where even the cheapest options pass the budget. The same input gives the same choice. Every item
/// has an option; costs add up to less than 2^62.
std::optional<Assignment> assign(std::span<const std::vector<AssignmentOption>> items, uint64_t budget,
                                 const AssignmentLimits& limits = {});

}  // namespace crumb
