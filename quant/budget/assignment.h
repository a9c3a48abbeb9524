// Chooses one option for each of many items, so that costs stay within a budget and the sum of losses is
// least: the multiple-choice knapsack.
//
// A linear relaxation gives the price of a unit of cost, and with it a lower bound. A search follows. It
// leaves out options whose price-corrected loss ("regret") cannot lead below the best that is known. It
// combines the rest item by item, and drops a combination that is neither cheaper nor better than another.
// Where one large item keeps relaxation and best far apart, its options are tried one after the other. The
// result is exact, up to rounding, unless Limits cut the search short; then the bound says how far off it may
// be.
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
  std::vector<uint32_t> choice;  ///< the index of an option, one an item
  uint64_t cost = 0;
  double loss = 0;
  double bound = 0;  ///< no choice within the budget loses less; `loss` where the choice is the best
};

/// How many combinations the search looks at.
struct AssignmentLimits {
  size_t width = size_t{1} << 15;  ///< combinations kept after each item
  size_t all = size_t{1} << 23;    ///< combinations looked at altogether
};

/// Returns nothing where even the cheapest options pass the budget. The same input gives the same choice.
/// Every item has an option; costs add up to less than 2^62.
std::optional<Assignment> assign(std::span<const std::vector<AssignmentOption>> items, uint64_t budget,
                                 const AssignmentLimits& limits = {});

}  // namespace crumb
