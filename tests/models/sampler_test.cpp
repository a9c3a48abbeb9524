// Which token follows, against the definitions of what is kept.
#include "runtime/language/sampler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"

namespace {

using crumb::runtime::Sampler;
using crumb::runtime::Sampling;
using Ids = std::vector<crumb::text::TokenId>;

std::vector<float> drawn_logits(std::mt19937& random, std::size_t count) {
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> logits(count);
  for (float& x : logits) x = std::round(normal(random) * 4) / 4;  // some are equal
  return logits;
}

/// Probabilities of what transformers' processors leave, one after the other.
std::map<int, double> kept(const Sampling& how, std::vector<float> logits, const Ids& before) {
  for (const int id : std::set<int>(before.begin(), before.end())) {
    float& x = logits[static_cast<std::size_t>(id)];
    x = x < 0 ? x * static_cast<float>(how.repeat_penalty) : x / static_cast<float>(how.repeat_penalty);
  }
  std::map<int, double> left;
  for (std::size_t i = 0; i < logits.size(); ++i) left[static_cast<int>(i)] = logits[i] / how.temperature;
  const auto probabilities = [&] {
    double total = 0;
    std::map<int, double> p;
    for (const auto& [id, x] : left) total += p[id] = std::exp(x);
    for (auto& [id, x] : p) x /= total;
    return p;
  };
  if (how.top_k > 0 && how.top_k < left.size()) {
    std::vector<double> order;
    for (const auto& [id, x] : left) order.push_back(x);
    std::ranges::sort(order, std::greater());
    std::erase_if(left, [&](const auto& entry) { return entry.second < order[how.top_k - 1]; });
  }
  if (how.top_p < 1) {
    std::vector<std::pair<double, int>> order;
    for (const auto& [id, p] : probabilities()) order.emplace_back(-p, id);
    std::ranges::sort(order);
    double sum = 0;
    std::set<int> keep;
    for (const auto& [negative, id] : order) {
      if (!keep.empty() && sum >= how.top_p) break;
      keep.insert(id);
      sum -= negative;
    }
    std::erase_if(left, [&](const auto& entry) { return !keep.contains(entry.first); });
  }
  const std::map<int, double> p = probabilities();
  double most = 0;
  for (const auto& [id, x] : p) most = std::max(most, x);
  std::erase_if(left, [&](const auto& entry) { return p.at(entry.first) < how.min_p * most; });
  return probabilities();
}

}  // namespace

TEST_CASE("sampler: without a temperature the largest, the lowest id of equal ones") {
  std::mt19937 random(1);
  for (int round = 0; round < 1000; ++round) {
    std::vector<float> logits = drawn_logits(random, 1 + random() % (round % 2 == 0 ? 40 : 4000));
    constexpr float kOdd[] = {-INFINITY, INFINITY, -0.0F, 0.0F, 1e30F};
    for (std::size_t odd = random() % 4; odd > 0; --odd)
      logits[random() % logits.size()] = kOdd[random() % 5];
    if (round % 50 == 0) std::ranges::fill(logits, -INFINITY);
    Sampler sampler({.top_k = 3, .top_p = 0.5});
    CHECK(sampler.choose(logits, {}) == std::ranges::max_element(logits) - logits.begin());
    const std::size_t at = random() % logits.size();
    logits[at] = NAN;
    const std::string message = "the logit of token " + std::to_string(at) + " is not a number";
    CHECK_THROWS_WITH_AS(sampler.choose(logits, {}), message.c_str(), crumb::Error);
  }
}

TEST_CASE("sampler: draws from what the options leave, as often as probabilities say") {
  std::mt19937 random(2);
  for (int round = 0; round < 40; ++round) {
    Sampling how{.temperature = 0.3 + static_cast<double>(random() % 20) / 10, .seed = random()};
    if (random() % 2 == 0) how.top_k = 1 + random() % 12;
    if (random() % 2 == 0) how.top_p = 0.05 + static_cast<double>(random() % 90) / 100;
    if (random() % 2 == 0) how.min_p = static_cast<double>(random() % 40) / 100;
    if (random() % 2 == 0) how.repeat_penalty = 0.7 + static_cast<double>(random() % 10) / 10;
    const std::vector<float> logits = drawn_logits(random, 12);
    const Ids before{3, 5, 3};
    const std::map<int, double> expected = kept(how, logits, before);
    constexpr int kDraws = 4000;
    std::map<int, int> counts;
    Sampler sampler(how), again(how);
    for (int i = 0; i < kDraws; ++i) {
      const auto id = sampler.choose(logits, before);
      REQUIRE(id == again.choose(logits, before));
      ++counts[id];
    }
    for (const auto& entry : counts) CHECK_MESSAGE(expected.contains(entry.first), "token ", entry.first);
    for (const auto& entry : expected) {
      const double p = entry.second;
      // Five deviations of a binomial count, and one for rounding.
      CHECK(std::abs(counts[entry.first] - kDraws * p) <= 5 * std::sqrt(kDraws * p * (1 - p)) + 1);
    }
  }
}

TEST_CASE("sampler: options outside what they may be, and logits that are no numbers, are refused") {
  for (const Sampling& odd :
       {Sampling{.temperature = -1}, Sampling{.temperature = NAN}, Sampling{.top_p = 0},
        Sampling{.top_p = 1.5}, Sampling{.min_p = -0.1}, Sampling{.min_p = 2}, Sampling{.repeat_penalty = 0}})
    CHECK_THROWS_AS(Sampler{odd}, crumb::Error);
  Sampler greedy({});
  CHECK_THROWS_AS(greedy.choose(std::vector<float>{1, NAN, 2}, {}), crumb::Error);
  Sampler hot({.temperature = 1});
  CHECK(hot.choose(std::vector<float>{1, INFINITY, 2}, {}) == 1);
  CHECK(hot.choose(std::vector<float>{-INFINITY, -INFINITY, 2}, {}) == 2);
}
