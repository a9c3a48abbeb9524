// Chooses options of many layers within one budget, where layers that take the same value share one of their
// two options: each layer has a format of its weights for itself, and a group of layers has the format of its
// input together.
//
// A group becomes one item of the multiple-choice knapsack (assignment.h). For each shared option it has the
// sums of its layers' own options that no other such sum beats in cost and loss, found layer by layer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "quant/budget/assignment.h"

namespace crumb {

/// Indexed by own option, then by shared option; nothing where the two do not go together. Each row is as
/// long as the group's losses.
using LayerOptions = std::vector<std::vector<std::optional<AssignmentOption>>>;

struct JointGroup {
  std::vector<double> losses;        ///< what each shared option adds to the layers' losses
  std::vector<LayerOptions> layers;  ///< at least one
};

struct JointChoice {
  std::uint32_t shared = 0;
  std::vector<std::uint32_t> own;  ///< each layer's own option
  bool operator==(const JointChoice&) const = default;
};

struct JointAssignment {
  std::vector<JointChoice> groups;
  std::uint64_t cost = 0;
  double loss = 0;
  double bound = 0;  ///< as Assignment's
};

/// Returns the least that a group can cost; nothing where none of its options go together.
std::optional<std::uint64_t> least_cost(const JointGroup& group);

/// Returns nothing where even the cheapest options pass the budget, or where a group has no option. As exact
/// as assign(), unless a group has more than `most_sums` sums: then some are left out, and the bound is 0.
/// Losses are finite and at least 0, costs add up to less than 2^62.
std::optional<JointAssignment> assign_jointly(std::span<const JointGroup> groups, std::uint64_t budget,
                                              std::size_t most_sums = std::size_t{1} << 14);

}  // namespace crumb
