#include "quant/budget/joint_assignment.h"

#include <algorithm>
#include <tuple>

namespace crumb {
namespace {

/// The sum of one option of each layer of a group.
struct Sum {
  AssignmentOption total;
  JointChoice choice;
};

/// Sorts the sums by cost, and leaves only those that lose less than all before them.
void drop_beaten(std::vector<Sum>& sums) {
  std::ranges::stable_sort(sums, [](const Sum& a, const Sum& b) {
    return std::tie(a.total.cost, a.total.loss) < std::tie(b.total.cost, b.total.loss);
  });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (kept > 0 && sums[i].total.loss >= sums[kept - 1].total.loss) continue;
    if (kept != i) sums[kept] = std::move(sums[i]);
    ++kept;
  }
  sums.resize(kept);
}

/// Keeps `most` sums, the first and the last among them.
void thin_out(std::vector<Sum>& sums, std::size_t most) {
  most = std::max<std::size_t>(most, 2);
  std::vector<Sum> kept;
  kept.reserve(most);
  for (std::size_t i = 0; i < most; ++i) kept.push_back(std::move(sums[i * (sums.size() - 1) / (most - 1)]));
  sums = std::move(kept);
}

/// Returns whether `all` has all the sums, none thinned out.
bool sum_up(const JointGroup& group, std::uint32_t shared, std::size_t most, std::vector<Sum>& all) {
  bool is_whole = true;
  std::vector<Sum> sums{
      {.total = {.cost = 0, .loss = group.losses[shared]}, .choice = {.shared = shared, .own = {}}}};
  for (const LayerOptions& layer : group.layers) {
    std::vector<Sum> next;
    for (const Sum& sum : sums) {
      for (std::uint32_t own = 0; own < layer.size(); ++own) {
        const std::optional<AssignmentOption>& option = layer[own][shared];
        if (!option) continue;
        Sum made = sum;
        made.total.cost += option->cost;
        made.total.loss += option->loss;
        made.choice.own.push_back(own);
        next.push_back(std::move(made));
      }
    }
    drop_beaten(next);
    if (next.size() > most) {
      thin_out(next, most);
      is_whole = false;
    }
    sums = std::move(next);
  }
  std::ranges::move(sums, std::back_inserter(all));
  return is_whole;
}

}  // namespace

std::optional<std::uint64_t> least_cost(const JointGroup& group) {
  std::optional<std::uint64_t> least;
  for (std::size_t shared = 0; shared < group.losses.size(); ++shared) {
    std::optional<std::uint64_t> sum = 0;
    for (const LayerOptions& layer : group.layers) {
      std::optional<std::uint64_t> cheapest;
      for (const auto& row : layer)
        if (row[shared]) cheapest = std::min(cheapest.value_or(row[shared]->cost), row[shared]->cost);
      sum = sum && cheapest ? std::optional(*sum + *cheapest) : std::nullopt;
    }
    if (sum) least = std::min(least.value_or(*sum), *sum);
  }
  return least;
}

std::optional<JointAssignment> assign_jointly(std::span<const JointGroup> groups, std::uint64_t budget,
                                              std::size_t most_sums) {
  std::vector<std::vector<Sum>> sums(groups.size());
  std::vector<std::vector<AssignmentOption>> items(groups.size());
  bool is_whole = true;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (std::uint32_t shared = 0; shared < groups[g].losses.size(); ++shared)
      is_whole = sum_up(groups[g], shared, most_sums, sums[g]) && is_whole;
    drop_beaten(sums[g]);
    if (sums[g].empty()) return std::nullopt;
    for (const Sum& sum : sums[g]) items[g].push_back(sum.total);
  }
  const std::optional<Assignment> found = assign(items, budget);
  if (!found) return std::nullopt;
  JointAssignment made{
      .groups = {}, .cost = found->cost, .loss = found->loss, .bound = is_whole ? found->bound : 0};
  for (std::size_t g = 0; g < groups.size(); ++g)
    made.groups.push_back(std::move(sums[g][found->choice[g]].choice));
  return made;
}

}  // namespace crumb
