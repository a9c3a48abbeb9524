// Options of many layers within one budget, where layers that take the same value share one of their two options: formats of
// weights, which each layer has for itself, and of what it takes in, which a group of layers has together.
//
// A group becomes one item of the multiple-choice knapsack (assignment.h): for each shared option, the sums of its layers' own
// ones that no other such sum beats in cost and loss, found layer by layer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "quant/budget/assignment.h"

namespace crumb {

/// By own option, then by shared one; nothing where the two do not go together. Each row has as many as the group's losses.
using LayerOptions = std::vector<std::vector<std::optional<AssignmentOption>>>;

struct JointGroup {
  std::vector<double> losses;        ///< of each shared option: what it adds to those of the layers
  std::vector<LayerOptions> layers;  ///< at least one
};

struct JointChoice {
  std::uint32_t shared = 0;
  std::vector<std::uint32_t> own;  ///< of each layer
  bool operator==(const JointChoice&) const = default;
};

struct JointAssignment {
  std::vector<JointChoice> groups;
  std::uint64_t cost = 0;
  double loss = 0;
  double bound = 0;  ///< as Assignment's
};

/// The least that a group can cost; nothing where none of its options go together.
std::optional<std::uint64_t> least_cost(const JointGroup& group);

/// Nothing where even the cheapest options pass the budget, or a group has none. As exact as assign(), unless the sums of
/// a group are more than `most_sums`: then some are left out, and the bound is 0. Losses are finite and at least 0, costs add up to
/// less than 2^62.
std::optional<JointAssignment> assign_jointly(std::span<const JointGroup> groups, std::uint64_t budget,
                                              std::size_t most_sums = std::size_t{1} << 14);

}  // namespace crumb
