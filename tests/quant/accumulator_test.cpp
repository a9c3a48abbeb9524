// Budgets, worst sums and repair: goldens, brute force over all inputs, prefixes and orders, properties.
#include "quant/accumulator/accumulator.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "base/error.h"
#include "quant/accumulator/accumulator_quantizers.h"
#include "tests/support/samples.h"

namespace crumb {
namespace {

using Codes = std::vector<std::int64_t>;

// W of Brevitas' golden values.
const std::vector<double> kRows[2] = {{.5, -1.25, .3, .9, -.05, .7, -.33, .12},
                                      {2, .01, -.6, -1.1, .45, -.2, .8, -1.6}};

std::int64_t l1(const Codes& codes) {
  std::int64_t sum = 0;
  for (const std::int64_t code : codes) sum += std::abs(code);
  return sum;
}

TEST_CASE("budgets are the papers'") {
  CHECK(a2q_budget(8, 4, false) == 127.0 / 16);
  CHECK(a2q_budget(8, 4, true) == 127.0 / 8);
  CHECK(a2q_plus_budget(8, 4) == 254.0 / 15);
  CHECK(a2q_plus_budget(16, 8) == 65534.0 / 255);
  CHECK(a2q_plus_budget(8, 4, 27) == 200.0 / 15);
  CHECK(a2q_budget(8, 4, false, -27) == 100.0 / 16);
  CHECK(a2q_budget(8, 4, false, 500) == 0);
  for (int bits = 1; bits <= 8; ++bits) {
    for (const bool is_signed : {false, true}) {
      CHECK(a2q_plus_budget(12, integer_range(bits, is_signed)) ==
            doctest::Approx(a2q_plus_budget(12, bits)));
      CHECK(a2q_budget(12, integer_range(bits, is_signed)) >= a2q_budget(12, bits, is_signed));
    }
  }
  // A zero point of 3: inputs from -3 to 12. One that leaves zero out still meets its own absence.
  CHECK(a2q_plus_budget(8, IntegerRange{-3, 12}) == 254.0 / 15);
  CHECK(a2q_budget(8, IntegerRange{-3, 12}) == 127.0 / 12);
  CHECK(a2q_plus_budget(8, IntegerRange{5, 10}) == 254.0 / 10);
  for (const double bias : {0.0, 127.0, 500.0}) {  // inputs that are all zero need no budget
    CHECK(a2q_budget(8, IntegerRange{0, 0}, bias) == std::numeric_limits<double>::infinity());
    CHECK(a2q_plus_budget(8, IntegerRange{0, 0}, bias) == std::numeric_limits<double>::infinity());
  }
}

TEST_CASE(
    "A2Q's budget is the exact range's, and tight: the paper's for signed inputs, less than it needs for "
    "unsigned") {
  for (int bits = 2; bits <= 8; ++bits) {
    CHECK(a2q_budget(12, integer_range(bits, true)) == a2q_budget(12, bits, true));
    const double most = std::ldexp(1.0, bits);
    CHECK(a2q_budget(12, integer_range(bits, false)) ==
          doctest::Approx(a2q_budget(12, bits, false) * most / (most - 1)));
  }
  for (const IntegerRange input :
       {IntegerRange{0, 15}, {0, 255}, {-8, 7}, {-3, 12}, {-12, 3}, {5, 10}, {-7, 0}}) {
    for (int bits = 6; bits <= 20; ++bits) {
      for (const std::int64_t bias : {0, 9}) {
        const double budget = a2q_budget(bits, input, static_cast<double>(bias));
        const auto norm = static_cast<std::int64_t>(std::floor(budget));
        // All of it on the sign whose sums go up as far as the largest magnitude of an input takes them.
        const IntegerRange x = input.with_zero();
        const std::int64_t sign = x.high >= -x.low ? 1 : -1;
        CHECK(fits(*worst_sums(Codes{sign * norm}, input, bias), bits));
        CHECK_FALSE(fits(*worst_sums(Codes{sign * (norm + 1)}, input, bias), bits));
        CHECK(fits(*worst_sums(Codes{-sign * norm}, input, -bias), bits));
      }
    }
  }
}

TEST_CASE("A2Q and A2Q+ give the golden codes") {
  const Codes a2q[2] = {{0, -2, 0, 1, 0, 1, 0, 0}, {2, 0, 0, -1, 0, 0, 0, -1}};
  const Codes plus[2] = {{1, -5, 0, 3, 0, 2, -1, 0}, {5, 0, -1, -2, 1, 0, 2, -3}};
  for (int row = 0; row < 2; ++row) {
    const RowParameters parameters = initial_row_parameters(kRows[row], 4);
    CHECK(a2q_codes_ref(kRows[row], parameters, 4, a2q_budget(8, 4, false)) == a2q[row]);
    CHECK(a2q_plus_codes_ref(kRows[row], parameters, 4, a2q_plus_budget(8, 4)) == plus[row]);
  }
}

TEST_CASE("rows of zeros, of one weight and of a tiny budget") {
  const std::vector<double> zeros(5, 0.0), one{-3.0};
  CHECK(a2q_codes_ref(zeros, initial_row_parameters(zeros, 4), 4, 8) == Codes(5, 0));
  CHECK(a2q_plus_codes_ref(one, initial_row_parameters(one, 4), 4, 8) == Codes{0});  // its own mean
  CHECK(a2q_codes_ref(one, initial_row_parameters(one, 4), 4, 100)[0] <= -6);
  CHECK(a2q_codes_ref(kRows[0], initial_row_parameters(kRows[0], 4), 4, 0) == Codes(8, 0));
  CHECK(a2q_codes_ref(one, initial_row_parameters(one, 4), 4, 1) == Codes{-1});  // a norm of exactly one step
}

TEST_CASE("the projection is the nearest point of the ball") {
  std::mt19937_64 engine(5);
  std::normal_distribution<double> draw;
  for (int round = 0; round < 200; ++round) {
    std::vector<double> w(1 + round % 17);
    for (double& value : w) value = draw(engine);
    double norm = 0;
    for (const double value : w) norm += std::fabs(value);
    const double radius = norm * (round % 5) / 4;
    std::vector<double> p = w;
    const double theta = project_to_l1_ball(p, radius);
    double after = 0;
    for (const double value : p) after += std::fabs(value);
    if (radius >= norm) {
      CHECK(p == w);
      CHECK(theta == 0);
      continue;
    }
    CHECK(after == doctest::Approx(radius));
    // Optimal: what is left has moved by exactly theta, what is zero was at most theta.
    for (std::size_t i = 0; i < w.size(); ++i) {
      if (p[i] != 0) CHECK(std::fabs(w[i]) - std::fabs(p[i]) == doctest::Approx(theta));
      if (p[i] == 0) CHECK(std::fabs(w[i]) <= theta + 1e-12);
      CHECK(p[i] * w[i] >= 0);
    }
  }
}

TEST_CASE("projected rows lose nothing more to the budget") {
  std::vector<double> w = kRows[1];
  const RowParameters before = initial_row_parameters(w, 4);
  const double budget = a2q_plus_budget(8, 4), radius = std::exp2(before.log2_scale) * budget;
  const RowParameters after = a2q_plus_project(w, before, budget);
  CHECK(after.log2_norm == doctest::Approx(std::log2(radius)));
  CHECK(after.log2_scale == before.log2_scale);
  double norm = 0;
  for (const double value : w) norm += std::fabs(value);
  CHECK(norm == doctest::Approx(radius));
  // A large budget: only the mean goes.
  std::vector<double> free = kRows[1];
  const RowParameters same = a2q_plus_project(free, before, 1e9);
  CHECK(same.log2_norm == before.log2_norm);
  CHECK(std::accumulate(free.begin(), free.end(), 0.0) == doctest::Approx(0));
}

TEST_CASE("worst sums are those of every input, prefix and order") {
  std::mt19937_64 engine(3);
  std::uniform_int_distribution<int> code(-3, 3), low(-3, 2), width(0, 3), bias(-4, 4);
  for (int round = 0; round < 60; ++round) {
    Codes q(round % 5);
    for (std::int64_t& value : q) value = code(engine);
    const std::int64_t lo = low(engine), hi = lo + width(engine), start = round % 2 ? bias(engine) : 0;
    WorstSums brute;
    std::vector<std::size_t> order(q.size() + 1);  // the bias is one of the terms
    std::iota(order.begin(), order.end(), 0);
    Codes x(q.size(), lo);
    while (true) {
      do {
        std::int64_t sum = 0;
        for (const std::size_t i : order) {
          sum += i == q.size() ? start : q[i] * x[i];
          brute.max = std::max(brute.max, sum);
          brute.min = std::min(brute.min, sum);
        }
      } while (std::ranges::next_permutation(order).found);
      std::size_t i = 0;
      for (; i < x.size() && ++x[i] > hi; ++i) x[i] = lo;
      if (i == x.size()) break;
    }
    const auto found = worst_sums(q, {lo, hi}, start);
    REQUIRE(found);
    CHECK(*found == brute);
  }
}

TEST_CASE("widths are the least that hold both extremes") {
  CHECK(accumulator_bits({0, 0}) == 1);
  CHECK(accumulator_bits({0, -1}) == 1);
  CHECK(accumulator_bits({1, 0}) == 2);
  CHECK(accumulator_bits({127, -128}) == 8);
  CHECK(accumulator_bits({128, -128}) == 9);
  CHECK(accumulator_bits({127, -129}) == 9);
  CHECK(accumulator_bits({INT64_MAX, 0}) == 64);
  CHECK(accumulator_bits({0, INT64_MIN}) == 64);
  CHECK(fits({127, -128}, 8));
  CHECK_FALSE(fits({128, 0}, 8));
  CHECK(accumulator_bits_by_balanced_norm(16, 4) == 8);  // 242 states
  CHECK(accumulator_bits_by_balanced_norm(18, 4) == 9);
  CHECK(outer_accumulator_bits(8, 64, 0) == 8);
  CHECK(outer_accumulator_bits(8, 64, 64) == 8);
  CHECK(outer_accumulator_bits(8, 65, 64) == 9);
  CHECK(outer_accumulator_bits(8, 100, 16) == 11);
}

TEST_CASE("widths from bounds are the least whose greatest number no sum of that norm exceeds") {
  for (int input_bits = 1; input_bits <= 8; ++input_bits) {
    for (const bool is_signed : {false, true}) {
      const std::int64_t most = std::int64_t{1}
                                << (input_bits - (is_signed ? 1 : 0));  // of |x|, as the papers bound it
      for (std::int64_t norm : {0, 1, 2, 3, 7, 8, 9, 100, 255, 256, 1000}) {
        int bits = 1;
        while ((std::int64_t{1} << (bits - 1)) - 1 < norm * most) ++bits;
        CAPTURE(input_bits);
        CAPTURE(norm);
        CHECK(accumulator_bits_by_norm(static_cast<double>(norm), input_bits, is_signed) == bits);
        for (int weight_bits = 1; weight_bits <= 8; ++weight_bits) {
          int wide = 1;
          while ((std::int64_t{1} << (wide - 1)) - 1 < (norm * most) << (weight_bits - 1)) ++wide;
          CHECK(accumulator_bits_by_types(static_cast<double>(norm), input_bits, is_signed, weight_bits) ==
                wide);
        }
      }
    }
  }
}

TEST_CASE("sums past 64 bits are said to be so") {
  const std::int64_t large = std::int64_t{1} << 40;
  CHECK_FALSE(worst_sums(Codes{large}, {0, large}));
  CHECK_FALSE(worst_sums(Codes{INT64_MIN}, {-1, 0}));
  CHECK_FALSE(worst_sums(Codes(4, large), {0, std::int64_t{1} << 21}));
  CHECK(worst_sums(Codes(3, large), {0, std::int64_t{1} << 21})->max == 3 * (std::int64_t{1} << 61));
  CHECK_FALSE(worst_sums_of_tiles(Codes{1, large}, 1, {0, large}));
  Codes codes{large};
  CHECK_THROWS_AS(repair_row(codes, {}, {0, large}, 8), Error);
}

TEST_CASE("tiles are rows of their own, the first with the bias") {
  const Codes q{1, 2, -3, 4, 5};
  const auto tiles = worst_sums_of_tiles(q, 2, {-1, 3}, -7);
  REQUIRE(tiles);
  CHECK(*tiles == std::vector<WorstSums>{{9, -10}, {15, -13}, {15, -5}});
  CHECK(worst_sums_of_tiles(q, 0, {-1, 3})->size() == 1);
  CHECK(worst_sums_of_tiles(Codes{}, 0, {-1, 3}, 4) == std::vector<WorstSums>{{4, 0}});
}

TEST_CASE("repaired rows fit, rows that fit stay, and the last step was needed") {
  std::mt19937_64 engine(11);
  std::normal_distribution<double> draw(0, 6);
  for (int round = 0; round < 400; ++round) {
    std::vector<double> latent(1 + round % 37);
    Codes q;
    for (double& value : latent) {
      value = draw(engine);
      q.push_back(std::llround(value));
    }
    const int bits = 2 + round % 12;
    const std::int64_t lo = round % 3 == 0 ? 0 : round % 3 == 1 ? -8 : 2, hi = 7 + round % 9;
    const std::int64_t start = round % 4 == 0 ? (round % 8 == 0 ? 1 : -2) : 0;
    const bool fitted = fits(*worst_sums(q, {lo, hi}, start), bits);
    const Codes before = q;
    Codes again = q;
    const std::int64_t steps = repair_row(q, latent, {lo, hi}, bits, start);
    CHECK(fits(*worst_sums(q, {lo, hi}, start), bits));
    CHECK(steps == l1(before) - l1(q));
    CHECK((steps == 0) == fitted);
    for (std::size_t i = 0; i < q.size(); ++i) {
      CHECK(q[i] * before[i] >= 0);
      CHECK(std::abs(q[i]) <= std::abs(before[i]));
    }
    CHECK(repair_row(again, latent, {lo, hi}, bits, start) == steps);
    CHECK(again == q);
    CHECK(repair_row(q, latent, {lo, hi}, bits, start) == 0);
    if (lo >= 0 && steps > 0) {  // unsigned: a step of one sign relieves one side, so no step is to spare
      const WorstSums sums = *worst_sums(q, {lo, hi}, start);
      const std::int64_t most = (std::int64_t{1} << (bits - 1)) - 1;
      CHECK((sums.max + hi > most || sums.min - hi < -most - 1));
    }
  }
}

TEST_CASE("a repair takes the step that hurts least") {
  Codes q{3, 3, 3};
  CHECK(repair_row(q, std::vector<double>{2.9, 2.4, 3.3}, {0, 10}, 7 + 0, 0) == 3);  // 90 -> 60 of 63
  CHECK(q == Codes{2, 2, 2});
  q = {3, 3, 3};
  CHECK(repair_row(q, std::vector<double>{2.9, 2.4, 3.3}, {0, 8}, 7) == 2);  // 72 -> 56
  CHECK(q == Codes{2, 2, 3});
  q = {3, -3};
  CHECK(repair_row(q, {}, {0, 8}, 5) == 3);  // 24 over 15, -24 under -16
  CHECK(q == Codes{1, -2});
  CHECK_THROWS_AS(repair_row(q, {}, {0, 8}, 5, 16), Error);  // the bias alone
  CHECK(repair_row(q, {}, {0, 8}, 5, 15) == 1);
  CHECK(q == Codes{0, -2});
}

TEST_CASE("A2Q and A2Q+ rows fit after at most a repair, tiles as well") {
  std::mt19937_64 engine(17);
  std::normal_distribution<double> draw(0, 1);
  std::int64_t repaired = 0;
  for (int round = 0; round < 600; ++round) {
    std::vector<double> w(1 + round % 71);
    for (double& value : w) value = draw(engine) + (round % 2 ? 0.3 : 0);
    const int input_bits = 1 + round % 8, weight_bits = 2 + round % 7, bits = 4 + round % 14;
    const bool is_signed = round % 3 == 0;
    const IntegerRange x = integer_range(input_bits, is_signed);
    const std::int64_t start = round % 5 == 0 ? -3 : 0;
    const double b = static_cast<double>(std::abs(start));
    const RowParameters p = initial_row_parameters(w, weight_bits);
    Codes plain = a2q_codes_ref(w, p, weight_bits, a2q_budget(bits, input_bits, is_signed, b));
    Codes plus = a2q_plus_codes_ref(w, p, weight_bits, a2q_plus_budget(bits, input_bits, b));
    for (Codes* codes : {&plain, &plus}) {
      const std::int64_t steps = repair_row(*codes, {}, x, bits, start);
      CHECK(steps <= 1);
      repaired += steps;
      CHECK(fits(*worst_sums(*codes, x, start), bits));
    }
    const std::size_t tile = 1 + round % 16;
    Codes tiled = plus;
    repair_tiles(tiled, {}, tile, x, std::max(2, bits - 2), 0);
    const auto all = worst_sums_of_tiles(tiled, tile, x);
    REQUIRE(all);
    for (const WorstSums& sums : *all) {
      CHECK(fits(sums, std::max(2, bits - 2)));
    }
  }
  MESSAGE(repaired << " codes repaired");
}

}  // namespace
}  // namespace crumb
