// Formats that layers have for themselves and formats that groups share, against brute force and a bound.
#include "quant/budget/joint_assignment.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <vector>

using crumb::assign_jointly;
using crumb::AssignmentOption;
using crumb::JointAssignment;
using crumb::JointGroup;
using crumb::LayerOptions;

namespace {

using Groups = std::vector<JointGroup>;

std::size_t drawn_below(std::mt19937_64& random, std::size_t end) { return random() % end; }

/// Ties, beaten options and forbidden pairs among them.
Groups drawn_groups(std::mt19937_64& random) {
  Groups groups(1 + drawn_below(random, 3));
  for (JointGroup& group : groups) {
    group.losses.resize(1 + drawn_below(random, 3));
    for (double& loss : group.losses) loss = static_cast<double>(drawn_below(random, 30)) / 30;
    group.layers.resize(1 + drawn_below(random, 3));
    for (LayerOptions& layer : group.layers) {
      layer.resize(1 + drawn_below(random, 3));
      for (auto& row : layer) {
        for (std::size_t shared = 0; shared < group.losses.size(); ++shared) {
          const bool is_forbidden = drawn_below(random, 8) == 0;
          row.push_back(is_forbidden ? std::nullopt
                                     : std::optional(AssignmentOption{
                                           .cost = drawn_below(random, 20),
                                           .loss = static_cast<double>(drawn_below(random, 30)) / 30}));
        }
      }
    }
  }
  return groups;
}

struct BestOfAll {
  std::uint64_t cost = std::numeric_limits<std::uint64_t>::max();  ///< the least of all choices
  double loss = std::numeric_limits<double>::infinity();           ///< the least within the budget
};

/// Every choice of every group from `g` on, layer by layer.
void look_at_all(const Groups& groups, std::uint64_t budget, std::size_t g, std::size_t shared,
                 std::size_t layer, std::uint64_t cost, double loss, BestOfAll& found) {
  if (g == groups.size()) {
    found.cost = std::min(found.cost, cost);
    if (cost <= budget) found.loss = std::min(found.loss, loss);
    return;
  }
  const JointGroup& group = groups[g];
  if (layer == 0 && shared == group.losses.size()) return;
  if (layer == 0) {
    look_at_all(groups, budget, g, shared + 1, 0, cost, loss, found);
    loss += group.losses[shared];
  }
  for (const auto& row : group.layers[layer]) {
    if (!row[shared]) continue;
    const bool is_last = layer + 1 == group.layers.size();
    look_at_all(groups, budget, is_last ? g + 1 : g, is_last ? 0 : shared, is_last ? 0 : layer + 1,
                cost + row[shared]->cost, loss + row[shared]->loss, found);
  }
}

/// The figures are the choice's own.
void check_figures(const Groups& groups, const JointAssignment& made) {
  std::uint64_t cost = 0;
  double loss = 0;
  REQUIRE(made.groups.size() == groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const crumb::JointChoice& choice = made.groups[g];
    loss += groups[g].losses.at(choice.shared);
    REQUIRE(choice.own.size() == groups[g].layers.size());
    for (std::size_t i = 0; i < choice.own.size(); ++i) {
      const auto& option = groups[g].layers[i].at(choice.own[i])[choice.shared];
      REQUIRE(option);
      cost += option->cost;
      loss += option->loss;
    }
  }
  CHECK(cost == made.cost);
  CHECK(loss == doctest::Approx(made.loss).epsilon(1e-12));
}

std::optional<std::uint64_t> least_of_all(const Groups& groups) {
  std::uint64_t sum = 0;
  for (const JointGroup& group : groups) {
    const auto least = crumb::least_cost(group);
    if (!least) return std::nullopt;
    sum += *least;
  }
  return sum;
}

}  // namespace

TEST_CASE("joint assignment: no choice within the budget loses less, against all of them") {
  std::mt19937_64 random(1);
  std::size_t met = 0, missed = 0;
  for (int round = 0; round < 4000; ++round) {
    const Groups groups = drawn_groups(random);
    const std::uint64_t budget = drawn_below(random, 90);
    CAPTURE(round);
    BestOfAll best;
    look_at_all(groups, budget, 0, 0, 0, 0, 0, best);
    const auto least = least_of_all(groups);
    CHECK(least.has_value() == (best.cost != std::numeric_limits<std::uint64_t>::max()));
    if (least) CHECK(*least == best.cost);
    const auto made = assign_jointly(groups, budget);
    REQUIRE(made.has_value() == std::isfinite(best.loss));
    if (!made) {
      ++missed;
      continue;
    }
    ++met;
    check_figures(groups, *made);
    CHECK(made->cost <= budget);
    CHECK(made->loss == doctest::Approx(best.loss).epsilon(1e-9));
    CHECK(made->bound == doctest::Approx(made->loss).epsilon(1e-9));
  }
  CHECK(met > 1000);
  CHECK(missed > 100);
}

TEST_CASE("joint assignment: groups of many layers are thinned, keep the budget, and claim no bound then") {
  std::mt19937_64 random(2);
  for (int round = 0; round < 20; ++round) {
    JointGroup group{.losses = {0.5, 0.0}, .layers = {}};
    for (int layer = 0; layer < 30; ++layer) {
      const std::uint64_t size = 1000 + drawn_below(random, 100000);
      LayerOptions options;
      for (const std::uint64_t bits : {2, 3, 4, 8}) {
        auto& row = options.emplace_back();
        for (const std::uint64_t taken : {4, 8})
          row.push_back(AssignmentOption{.cost = size * bits * taken, .loss = std::pow(4.0, -double(bits))});
      }
      group.layers.push_back(std::move(options));
    }
    const Groups groups{group};
    const std::uint64_t least = least_of_all(groups).value(), budget = least * 2;
    const JointAssignment whole = assign_jointly(groups, budget).value();
    const JointAssignment thinned = assign_jointly(groups, budget, 64).value();
    check_figures(groups, whole);
    check_figures(groups, thinned);
    CHECK(thinned.cost <= budget);
    CHECK(thinned.bound == 0);
    CHECK(assign_jointly(groups, least, 64).value().cost == least);
    CHECK(!assign_jointly(groups, least - 1, 64));
    // 64 of the sums after each layer: what is lost by that is little.
    CHECK(thinned.loss <= 1.1 * whole.loss);
  }
}
