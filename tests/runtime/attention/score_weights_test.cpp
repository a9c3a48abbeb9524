// Scores become masked scores and weights: every way has the bits of the definition.
#include "runtime/attention/score_weights.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "base/processor.h"
#include "runtime/attention/attention.h"
#include "runtime/exact/functions.h"
#include "runtime/exact/products.h"
#include "tests/support/number_bits.h"

namespace {

using crumb::Isa;
using crumb::may_use;
using crumb::runtime::kUnseen;
using crumb::testing::number_bits;
namespace exact = crumb::runtime::exact;

struct ScoreWays {
  decltype(&crumb::runtime::mask_scores) mask;
  decltype(&crumb::runtime::weigh_scores) weigh;
};

std::vector<ScoreWays> score_ways() {
  using namespace crumb::runtime;
  std::vector<ScoreWays> ways{{mask_scores, weigh_scores}, {mask_scores_portable, weigh_scores_portable}};
  if (may_use(Isa::kAvx2)) ways.push_back({mask_scores_avx2, weigh_scores_avx2});
  if (may_use(Isa::kAvx512)) ways.push_back({mask_scores_avx512, weigh_scores_avx512});
  return ways;
}

std::vector<float> drawn_scores(std::mt19937_64& engine, std::size_t count) {
  constexpr float kOdd[] = {kUnseen, std::numeric_limits<float>::infinity(), NAN, -1e9F, 0.0F, -0.0F, 1e-44F};
  std::normal_distribution<float> normal(0, 20);
  const bool has_odd = engine() % 3 == 0, has_nan = engine() % 20 == 0;
  std::vector<float> scores(count);
  for (float& s : scores) {
    s = normal(engine);
    if (has_odd && engine() % 8 == 0) s = kOdd[engine() % std::size(kOdd)];
    if (!has_nan && std::isnan(s)) s = kUnseen;
  }
  return scores;
}

void weigh_by_definition(std::size_t seen, std::vector<float>& s) {
  float most = kUnseen;
  for (std::size_t j = 0; j < seen; ++j) most = s[j] > most ? s[j] : most;
  for (std::size_t j = 0; j < s.size(); ++j)
    s[j] = j >= seen && most != kUnseen ? 0 : exact::exp_of((j < seen ? s[j] : kUnseen) - most);
  const float all = exact::sum_of(s.size(), [&](std::size_t j) { return s[j]; });
  for (float& w : s) w = w / all;
}

}  // namespace

TEST_CASE("scores: every way masks and weighs them as the definition does") {
  std::mt19937_64 engine(31);
  for (int round = 0; round < 4000; ++round) {
    CAPTURE(round);
    const std::size_t keys = engine() % 90, seen = engine() % 4 == 0 ? engine() % (keys + 1) : keys;
    const std::vector<float> scores = drawn_scores(engine, keys), added = drawn_scores(engine, keys);
    const auto allowed = std::make_unique<bool[]>(keys);
    for (std::size_t j = 0; j < keys; ++j) allowed[j] = engine() % 4 != 0;
    std::vector<float> with_numbers = scores, with_flags = scores;
    for (std::size_t j = 0; j < keys; ++j) {
      with_numbers[j] = added[j] == kUnseen ? kUnseen : scores[j] + added[j];
      if (!allowed[j]) with_flags[j] = kUnseen;
    }
    std::vector<float> weights = scores;
    weigh_by_definition(seen, weights);
    for (const ScoreWays& way : score_ways()) {
      std::vector<float> made = scores;
      way.mask(added.data(), nullptr, keys, made.data());
      REQUIRE(number_bits(made) == number_bits(with_numbers));
      made = scores;
      way.mask(nullptr, allowed.get(), keys, made.data());
      REQUIRE(number_bits(made) == number_bits(with_flags));
      made = scores;
      way.weigh(seen, keys, made.data());
      REQUIRE(number_bits(made) == number_bits(weights));
    }
  }
}
