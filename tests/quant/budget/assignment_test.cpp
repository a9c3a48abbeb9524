// The multiple-choice knapsack against brute force, against a table over all costs, and its bound.
#include "quant/budget/assignment.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <random>

using crumb::assign;
using crumb::Assignment;
using crumb::AssignmentOption;

namespace {

using Items = std::vector<std::vector<AssignmentOption>>;

double uniform(std::mt19937_64& engine) { return std::uniform_real_distribution<double>(0, 1)(engine); }

uint64_t below(std::mt19937_64& engine, uint64_t end) {
  return std::uniform_int_distribution<uint64_t>(0, end - 1)(engine);
}

/// Options without any order: ties, dominated ones, free ones.
Items wild(std::mt19937_64& engine, size_t count, size_t most_options, uint64_t most_cost) {
  Items items(count);
  for (auto& options : items) {
    options.resize(1 + below(engine, most_options));
    for (auto& option : options) option = {below(engine, most_cost), std::floor(uniform(engine) * 50) / 50};
  }
  return items;
}

/// What weights give: tensors of a few shapes or of any, a fourth of the loss for each bit more; one of them
/// as large as all the others where wished.
Items like_weights(std::mt19937_64& engine, size_t count, bool few_shapes, bool one_large) {
  constexpr uint64_t kShapes[] = {147'456, 589'824, 1'048'576};
  Items items(count);
  for (size_t i = 0; i < count; ++i) {
    uint64_t weights = few_shapes ? kShapes[below(engine, 3)] : 10'000 + below(engine, 1'000'000);
    if (one_large && i == count / 2) weights = count * 500'000;
    const double hard = 0.5 + uniform(engine);
    for (const double bits : {2.25, 2.5, 3.25, 4.125, 4.25, 4.5, 5.25, 6.25, 7.0, 8.03}) {
      items[i].push_back({static_cast<uint64_t>(static_cast<double>(weights) * bits / 8),
                          hard * (0.9 + 0.2 * uniform(engine)) * std::pow(4.0, 1 - bits)});
    }
  }
  return items;
}

uint64_t least_cost(const Items& items) {
  uint64_t cost = 0;
  for (const auto& options : items) cost += std::ranges::min(options, {}, &AssignmentOption::cost).cost;
  return cost;
}

/// The least loss of all choices.
std::optional<double> brute_force(const Items& items, uint64_t budget, size_t item = 0) {
  if (item == items.size()) return 0.0;
  std::optional<double> best;
  for (const AssignmentOption& option : items[item]) {
    if (option.cost > budget) continue;
    const std::optional<double> rest = brute_force(items, budget - option.cost, item + 1);
    if (rest && (!best || option.loss + *rest < *best)) best = option.loss + *rest;
  }
  return best;
}

/// The same by a table over costs.
std::optional<double> by_table(const Items& items, uint64_t budget) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<double> least(budget + 1, 0.0);
  for (const auto& options : items) {
    std::vector<double> next(budget + 1, kNever);
    for (const AssignmentOption& option : options)
      for (uint64_t b = option.cost; b <= budget; ++b)
        next[b] = std::min(next[b], least[b - option.cost] + option.loss);
    least = std::move(next);
  }
  if (least[budget] == kNever) return std::nullopt;
  return least[budget];
}

/// Whether the result is a choice within the budget whose figures are its own.
void check_consistent(const Items& items, uint64_t budget, const Assignment& found) {
  REQUIRE(found.choice.size() == items.size());
  uint64_t cost = 0;
  double loss = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    REQUIRE(found.choice[i] < items[i].size());
    cost += items[i][found.choice[i]].cost;
    loss += items[i][found.choice[i]].loss;
  }
  CHECK(cost == found.cost);
  CHECK(cost <= budget);
  CHECK(loss == doctest::Approx(found.loss).epsilon(1e-12));
  CHECK(found.bound <= found.loss);
  CHECK(found.bound >= 0);
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TEST_CASE("assignment: small instances have the loss of brute force") {
  std::mt19937_64 engine(1);
  for (int round = 0; round < 3000; ++round) {
    const Items items = wild(engine, 1 + below(engine, 6), 5, 1 + below(engine, 40));
    const uint64_t budget = below(engine, 140);
    const std::optional<double> expected = brute_force(items, budget);
    const std::optional<Assignment> found = assign(items, budget);
    REQUIRE(found.has_value() == expected.has_value());
    if (!found) continue;
    check_consistent(items, budget, *found);
    CHECK(found->loss == doctest::Approx(*expected).epsilon(1e-9));
    CHECK(found->bound == found->loss);
  }
}

TEST_CASE("assignment: more items than brute force can take, against a table over costs") {
  std::mt19937_64 engine(2);
  for (int round = 0; round < 60; ++round) {
    const Items items = wild(engine, 20 + below(engine, 40), 8, 60);
    const uint64_t budget = least_cost(items) + below(engine, 600);
    const std::optional<double> expected = by_table(items, budget);
    const std::optional<Assignment> found = assign(items, budget);
    REQUIRE((expected && found));
    check_consistent(items, budget, *found);
    CHECK(found->loss == doctest::Approx(*expected).epsilon(1e-9));
    CHECK(found->bound == found->loss);
  }
}

TEST_CASE("assignment: a search cut short still gives a choice, and a bound that holds") {
  std::mt19937_64 engine(3);
  size_t near = 0;
  for (int round = 0; round < 300; ++round) {
    const Items items = wild(engine, 12, 6, 200);
    const uint64_t budget = least_cost(items) + below(engine, 500);
    const double expected = by_table(items, budget).value();
    const std::optional<Assignment> found = assign(items, budget, {.width = 2, .all = 1 + below(engine, 40)});
    REQUIRE(found);
    check_consistent(items, budget, *found);
    CHECK(found->bound <= expected * (1 + 1e-9));
    CHECK(found->loss >= expected * (1 - 1e-9));
    near += found->bound < found->loss;
  }
  CHECK(near > 0);  // some were cut
}

TEST_CASE("assignment: a thousand tensors in ten formats, in seconds and to a thousandth") {
  std::mt19937_64 engine(4);
  for (const bool few_shapes : {true, false}) {
    for (const bool one_large : {true, false}) {
      for (const size_t count : {size_t{40}, size_t{1000}}) {
        const Items items = like_weights(engine, count, few_shapes, one_large);
        const uint64_t least = least_cost(items);
        for (const double part : {1.001, 1.3, 1.6, 2.5, 5.0}) {
          const auto budget = static_cast<uint64_t>(static_cast<double>(least) * part);
          const auto start = std::chrono::steady_clock::now();
          const std::optional<Assignment> found = assign(items, budget);
          const double seconds = seconds_since(start);
          REQUIRE(found);
          check_consistent(items, budget, *found);
          INFO(count << " tensors, few shapes " << few_shapes << ", one large " << one_large << ", part "
                     << part << ": " << seconds << " s");
          CHECK(found->loss - found->bound <= 1e-3 * found->loss);
          CHECK(seconds < 60);
          CHECK(assign(items, budget)->choice == found->choice);
        }
      }
    }
  }
}

TEST_CASE("assignment: the edges") {
  const Items two = {{{10, 1}, {20, 0.5}, {20, 0.25}}, {{5, 0.1}}};
  CHECK_FALSE(assign(two, 14));
  CHECK(assign(two, 15)->choice == std::vector<uint32_t>{0, 0});
  CHECK(assign(two, 24)->choice == std::vector<uint32_t>{0, 0});
  CHECK(assign(two, 25)->choice == std::vector<uint32_t>{2, 0});
  CHECK(assign(two, UINT64_MAX)->choice == std::vector<uint32_t>{2, 0});
  CHECK(assign(Items{}, 0)->loss == 0);
  const Items equal = {{{3, 0}, {2, 0}, {2, 0}}};  // nothing is lost: the cheapest, the first of them
  CHECK(assign(equal, 9)->choice == std::vector<uint32_t>{1});
}
