// Agreement of two sets of outputs: cosines by hand, ranks with ties, zero rows, errors.
#include "quant/agreement.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/error.h"
#include "tests/support/samples.h"

using crumb::Agreement;
using crumb::agreement;
using crumb::spearman;

namespace {}  // namespace

TEST_CASE("agreement: outputs that are the same agree exactly, whatever their length") {
  const std::vector<float> a = crumb::testing::normal_values(20 * 33, 1);
  std::vector<float> b = a;
  for (float& v : b) v *= 4;
  const Agreement result = agreement(a, b, 20, 33);
  CHECK(result.rows == 20);
  CHECK(result.width == 33);
  CHECK(result.mean_cosine == 1);
  CHECK(result.least_cosine == 1);
  CHECK(result.spearman == 1);
}

TEST_CASE("agreement: cosines row by row") {
  const std::vector<float> a{1, 0, 3, 4, 1, 1}, b{0, 2, 3, 4, -1, -1};
  const Agreement result = agreement(a, b, 3, 2);
  CHECK(result.mean_cosine == doctest::Approx(0));
  CHECK(result.least_cosine == doctest::Approx(-1));
}

TEST_CASE("agreement: rows of zeros agree with each other and with nothing else") {
  const std::vector<float> a{0, 0, 1, 2}, b{0, 0, 0, 0};
  const Agreement result = agreement(a, b, 2, 2);
  CHECK(result.mean_cosine == 0.5);
  CHECK(result.least_cosine == 0);
}

TEST_CASE("agreement: pairs are ranked over the upper triangle") {
  // Four unit vectors at angles; the same pairs ranked backwards on the other side.
  const auto at = [](std::initializer_list<double> angles) {
    std::vector<float> rows;
    for (const double angle : angles) {
      rows.push_back(static_cast<float>(std::cos(angle)));
      rows.push_back(static_cast<float>(std::sin(angle)));
    }
    return rows;
  };
  // Angles between pairs (01 02 12): 0.1 0.4 0.3 against 0.4 0.1 0.3: ranks of cosines 3 1 2 and 1 3 2.
  CHECK(agreement(at({0, 0.1, 0.4}), at({0, 0.4, 0.1}), 3, 2).spearman == doctest::Approx(-1));
  // 0.1 0.4 0.3 against 0.2 0.25 0.05: ranks 3 1 2 and 2 1 3: 1 - 6 * 2 / 24.
  CHECK(agreement(at({0, 0.1, 0.4}), at({0, 0.2, 0.25}), 3, 2).spearman == doctest::Approx(0.5));
}

TEST_CASE("agreement: too few rows for a correlation, or none") {
  CHECK(std::isnan(agreement({}, {}, 0, 4).mean_cosine));
  CHECK(std::isnan(agreement({}, {}, 0, 4).spearman));
  const std::vector<float> a{1, 2}, b{2, 1};
  CHECK(agreement(a, b, 1, 2).mean_cosine == doctest::Approx(0.8));
  CHECK(std::isnan(agreement(a, b, 1, 2).spearman));
  CHECK(std::isnan(agreement(a, b, 2, 1).spearman));
  CHECK_THROWS_AS(agreement({}, {}, uint64_t{1} << 60, 0), crumb::Error);
}

TEST_CASE("spearman: with ties, as scipy.stats.spearmanr gives it") {
  const std::vector<double> a{1, 2, 2, 3, 5, 5, 5}, b{2, 1, 4, 3, 6, 5, 7};
  CHECK(spearman(a, b) == doctest::Approx(0.8420413371357598).epsilon(1e-12));
  CHECK(spearman(a, a) == 1);
  CHECK(std::isnan(spearman(std::vector<double>{1, 1, 1}, std::vector<double>{1, 2, 3})));
  CHECK(std::isnan(spearman(std::vector<double>{1, 2, 3}, std::vector<double>{2, 2, 2})));
  CHECK(std::isnan(spearman(std::vector<double>{4, 4}, std::vector<double>{2, 2})));
  CHECK_THROWS_AS(spearman(a, std::vector<double>{1}), crumb::Error);
}

TEST_CASE("agreement: threads change nothing, order of the sides neither") {
  const std::vector<float> a = crumb::testing::normal_values(41 * 17, 3),
                           b = crumb::testing::normal_values(41 * 17, 4);
  const Agreement one = agreement(a, b, 41, 17, 1);
  for (const int threads : {2, 3, 7}) {
    const Agreement many = agreement(a, b, 41, 17, threads);
    CHECK(many.mean_cosine == one.mean_cosine);
    CHECK(many.spearman == one.spearman);
  }
  CHECK(agreement(b, a, 41, 17).spearman == doctest::Approx(one.spearman).epsilon(1e-12));
  CHECK(std::fabs(one.spearman) < 0.2);
}

TEST_CASE("agreement: sizes and values that cannot be compared") {
  const std::vector<float> six(6, 1.0F), four(4, 1.0F);
  CHECK_THROWS_WITH_AS(agreement(six, four, 3, 2),
                       doctest::Contains("the second has 4 values, expected 3 rows of 2"), crumb::Error);
  CHECK_THROWS_AS(agreement(six, six, uint64_t{1} << 63, 2), crumb::Error);
  std::vector<float> bad = six;
  bad[5] = std::numeric_limits<float>::quiet_NaN();
  CHECK_THROWS_WITH_AS(agreement(six, bad, 3, 2), doctest::Contains("row 2 of the second"), crumb::Error);
}
