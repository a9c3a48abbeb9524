// Distortion: values against a plain recomputation, odd inputs, and independence of chunks and threads.
#include "quant/distortion.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/error.h"
#include "tests/support/capture_copy.h"
#include "tests/support/samples.h"

namespace {

using crumb::Distortion;
using crumb::distortion;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool same_distortion(const Distortion& a, const Distortion& b) {
  const auto equal = [](double x, double y) { return std::memcmp(&x, &y, sizeof x) == 0; };
  return a.count == b.count && a.exact == b.exact && equal(a.sqnr_db, b.sqnr_db) &&
         equal(a.max_abs_error, b.max_abs_error) && equal(a.mean_abs_error, b.mean_abs_error) &&
         equal(a.p_norm, b.p_norm);
}

}  // namespace

TEST_CASE("distortion: numbers that can be told by hand") {
  const std::vector<float> x{3, 4, 0, -1}, y{3, 2, 0, -2};
  const Distortion d = distortion(x, y, 1);
  CHECK(d.count == 4);
  CHECK(d.exact == 2);
  CHECK(d.max_abs_error == 2);
  CHECK(d.mean_abs_error == 0.75);
  CHECK(d.p_norm == doctest::Approx(std::sqrt(5.0)).epsilon(1e-15));
  CHECK(d.sqnr_db == doctest::Approx(10 * std::log10(26.0 / 5)).epsilon(1e-15));
  CHECK(crumb::error_p_norm(x, y, 1) == doctest::Approx(3));
  CHECK(crumb::error_p_norm(x, y, 2) == doctest::Approx(std::sqrt(5.0)));
  CHECK(crumb::error_p_norm(x, y, 3) == doctest::Approx(std::cbrt(9.0)));
  CHECK(crumb::error_p_norm(x, y, 300) == doctest::Approx(2));
  CHECK(crumb::error_p_norm(x, y, kInfinity) == 2);
}

TEST_CASE("distortion: nothing, no error, no signal") {
  const Distortion none;  // what a result holds before it is there
  for (const double member : {none.sqnr_db, none.max_abs_error, none.mean_abs_error, none.p_norm}) {
    CHECK(member == 0);
  }
  CHECK(none.count == 0);
  CHECK(none.exact == 0);
  CHECK(distortion({}, {}, 1).count == 0);
  CHECK(distortion({}, {}, 1).exact == 0);
  CHECK(distortion({}, {}, 1).sqnr_db == kInfinity);
  CHECK(distortion({}, {}, 1).mean_abs_error == 0);
  CHECK(crumb::error_p_norm({}, {}, 2) == 0);
  const std::vector<float> zeros(5, 0.0F), minus(5, -0.0F), ones(5, 1.0F);
  CHECK(distortion(zeros, minus, 1).exact == 5);
  CHECK(distortion(zeros, minus, 1).sqnr_db == kInfinity);
  CHECK(distortion(zeros, ones, 1).sqnr_db == -kInfinity);
  CHECK(distortion(ones, zeros, 1).sqnr_db == 0);
}

TEST_CASE("distortion: the range of float32 neither overflows nor vanishes") {
  const std::vector<float> large{3e38F, -3e38F}, small{1e-45F, 3e-45F};
  CHECK(distortion(large, std::vector<float>{-3e38F, -3e38F}, 1).max_abs_error == doctest::Approx(6e38));
  CHECK(distortion(large, std::vector<float>{-3e38F, -3e38F}, 1).sqnr_db ==
        doctest::Approx(10 * std::log10(0.5)));
  const Distortion d = distortion(small, std::vector<float>{0, 3e-45F}, 1);
  CHECK(d.exact == 1);
  CHECK(d.sqnr_db == doctest::Approx(10 * std::log10(5.0)));
  CHECK(crumb::error_p_norm(large, std::vector<float>{0, 0}, 40) ==
        doctest::Approx(3e38 * std::pow(2, 1.0 / 40)));
}

TEST_CASE("distortion: inf and NaN") {
  // The same on both sides: exact, and no part of the signal.
  const Distortion same =
      distortion(std::vector<float>{kNan, kInf, -kInf, 2}, std::vector<float>{kNan, kInf, -kInf, 1}, 1);
  CHECK(same.exact == 3);
  CHECK(same.max_abs_error == 1);
  CHECK(same.sqnr_db == doctest::Approx(10 * std::log10(4.0)));
  // On one side: an infinite error.
  for (const auto& [x, y] :
       {std::pair{kNan, 1.0F}, {1.0F, kNan}, {kInf, 1.0F}, {1.0F, -kInf}, {kInf, -kInf}, {kNan, kInf}}) {
    CAPTURE_COPY(x);
    CAPTURE_COPY(y);
    const Distortion d = distortion(std::vector<float>{x, 5, 5}, std::vector<float>{y, 5, 4}, 1);
    CHECK(d.exact == 1);
    CHECK(d.max_abs_error == kInfinity);
    CHECK(d.mean_abs_error == kInfinity);
    CHECK(d.p_norm == kInfinity);
    CHECK(d.sqnr_db == -kInfinity);
    CHECK(crumb::error_p_norm(std::vector<float>{x}, std::vector<float>{y}, 3) == kInfinity);
  }
}

TEST_CASE("distortion: sums are within 3e-14 of the exact ones") {
  // One large square and many small ones that a plain sum of doubles would lose: 2^70 and 2^22 times 1.
  std::vector<float> x((1 << 22) + 1, 1.0F);
  x[0] = 0x1p35F;
  const std::vector<float> y(x.size(), 0.0F);
  CHECK(distortion(x, y, 1).p_norm == doctest::Approx(std::sqrt(0x1p70 + 0x1p22)).epsilon(3e-14));
  CHECK(distortion(x, y, 1).mean_abs_error * static_cast<double>(x.size()) ==
        doctest::Approx(0x1p35 + 0x1p22).epsilon(3e-14));
  crumb::CompensatedSum sum;
  for (const double term : {1.0, 1e100, 1.0, -1e100}) sum.add(term);
  CHECK(sum.value() == 2);

  const std::vector<float> values = crumb::testing::normal_values(300000, 5);
  const std::vector<float> others = crumb::testing::normal_values(values.size(), 6);
  long double square = 0, signal = 0, absolute = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const long double e = static_cast<long double>(values[i]) - static_cast<long double>(others[i]);
    square += e * e;
    absolute += std::fabs(e);
    signal += static_cast<long double>(values[i]) * static_cast<long double>(values[i]);
  }
  const Distortion d = distortion(values, others, 1);
  CHECK(d.p_norm == doctest::Approx(static_cast<double>(std::sqrt(square))).epsilon(3e-14));
  CHECK(d.mean_abs_error == doctest::Approx(static_cast<double>(absolute / 300000)).epsilon(3e-14));
  CHECK(d.sqnr_db == doctest::Approx(static_cast<double>(10 * std::log10(signal / square))).epsilon(1e-12));
}

TEST_CASE("distortion: sums that were cut in two carry the rounding errors of both") {
  const std::vector<double> terms{1.0, 1e100, 1.0, -1e100};
  for (size_t cut = 0; cut <= terms.size(); ++cut) {
    crumb::CompensatedSum front, back;
    for (size_t i = 0; i < terms.size(); ++i) (i < cut ? front : back).add(terms[i]);
    front.add(back);
    CAPTURE(cut);
    CHECK(front.value() == 2);
  }
}

TEST_CASE("distortion: every variant of the loop gives the bits of the scalar reference") {
  std::vector<float> x = crumb::testing::normal_values(4096, 3), y = crumb::testing::normal_values(4096, 4);
  x[7] = 3e38F, y[7] = -3e38F, x[8] = 1e-45F, y[8] = 0, x[9] = -0.0F, y[9] = 0;
  for (size_t i = 100; i < 900; ++i) y[i] = x[i];
  for (const crumb::Loops* variant : crumb::all_loops()) {
    CAPTURE(variant->name);
    for (const size_t n : {0, 16, 32, 160, 4096}) {
      crumb::DistortionLanes found, expected;
      for (crumb::DistortionLanes* lanes : {&found, &expected}) {
        crumb::add_distortion_ref(x.data() + 50, y.data() + 50, 33, 0, *lanes);  // not from nothing
      }
      crumb::add_distortion_ref(x.data(), y.data(), n, 0, expected);
      CHECK(variant->distortion(x.data(), y.data(), n, found));
      CHECK(found.exact == expected.exact);
      CHECK(std::memcmp(&found.signal, &expected.signal, sizeof found.signal) == 0);
      CHECK(std::memcmp(&found.square, &expected.square, sizeof found.square) == 0);
      CHECK(std::memcmp(&found.absolute, &expected.absolute, sizeof found.absolute) == 0);
      CHECK(std::memcmp(&found.most, &expected.most, sizeof found.most) == 0);
    }
    for (const auto& [bad, good] :
         {std::pair{kInf, 1.0F}, {1.0F, -kInf}, {kNan, kNan}, {kInf, kInf}, {1.0F, kNan}}) {
      std::vector<float> a = x, b = y;
      a[77] = bad, b[77] = good;
      crumb::DistortionLanes lanes;
      CHECK_FALSE(variant->distortion(a.data(), b.data(), 96, lanes));
      CHECK(lanes.exact == 0);
      CHECK(lanes.signal == crumb::DistortionLanes::Lanes{});
    }
  }
}

TEST_CASE("distortion: values made on the way are the same as values at hand") {
  const std::vector<float> x = crumb::testing::normal_values(30001, 1),
                           y = crumb::testing::normal_values(30001, 2);
  const Distortion whole = distortion(x, y, 1);
  for (const size_t chunk : {1000, 4096, 9999, 30001}) {
    crumb::DistortionSum sum;
    for (size_t i = 0; i < x.size(); i += chunk) {
      const size_t count = std::min(chunk, x.size() - i);
      sum.add_made(
          std::span(x).subspan(i, count),
          [&](uint64_t first, std::span<float> out) {
            std::copy_n(y.begin() + static_cast<ptrdiff_t>(i + first), out.size(), out.begin());
          },
          3);
    }
    CHECK(same_distortion(sum.result(), whole));
  }
}

TEST_CASE("distortion: chunks and threads change nothing") {
  const std::vector<float> x = crumb::testing::normal_values(50000, 1);
  std::vector<float> y = x;
  const std::vector<float> noise = crumb::testing::normal_values(x.size(), 2);
  for (size_t i = 0; i < y.size(); ++i) y[i] += i % 7 == 0 ? 0 : noise[i] * 0.03F;
  const Distortion whole = distortion(x, y, 1);

  double signal = 0, square = 0, absolute = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double e = double{x[i]} - double{y[i]};
    signal += double{x[i]} * double{x[i]};
    square += e * e;
    absolute += std::fabs(e);
  }
  CHECK(whole.sqnr_db == doctest::Approx(10 * std::log10(signal / square)).epsilon(1e-12));
  CHECK(whole.mean_abs_error == doctest::Approx(absolute / 50000).epsilon(1e-12));
  CHECK(crumb::error_p_norm(x, y, 2) == doctest::Approx(whole.p_norm).epsilon(1e-12));

  for (const int threads : {1, 2, 3, 7}) CHECK(same_distortion(distortion(x, y, threads), whole));
  for (const size_t chunk : {1, 3, 8, 1000, 4095, 4096, 4097, 12289, 49999}) {
    CAPTURE(chunk);
    crumb::DistortionSum sum;
    for (size_t i = 0; i < x.size(); i += chunk) {
      const size_t count = std::min(chunk, x.size() - i);
      sum.add(std::span(x).subspan(i, count), std::span(y).subspan(i, count), static_cast<int>(i % 3 + 1));
      sum.add({}, {});
    }
    CHECK(same_distortion(sum.result(), whole));
  }
}

TEST_CASE("distortion: sizes that differ and a p that is no norm are errors") {
  const std::vector<float> two(2), three(3);
  CHECK_THROWS_WITH_AS(distortion(two, three, 1), doctest::Contains("2 reference values and 3"),
                       crumb::Error);
  CHECK_THROWS_AS(crumb::error_p_norm(two, three, 2), crumb::Error);
  CHECK_THROWS_AS(crumb::error_p_norm(two, two, 0), crumb::Error);
  CHECK_THROWS_AS(crumb::error_p_norm(two, two, std::nan("")), crumb::Error);
}
