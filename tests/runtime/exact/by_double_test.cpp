// Functions by way of float64: within 0.51 units in the last place of the true values, and C's special cases.
#include "runtime/exact/by_double.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

using crumb::runtime::exact::cos_of;
using crumb::runtime::exact::pow_of;
using crumb::runtime::exact::sin_of;

namespace {

/// Units in the last place of the true value that lie between.
long double error_in_units(float found, long double expected) {
  const long double largest = std::numeric_limits<float>::max();
  if (std::fabs(expected) > largest * (1 + 0x1p-25L)) return std::isinf(found) ? 0 : HUGE_VALL;
  if (std::isinf(found)) return HUGE_VALL;
  const int exponent = expected == 0 ? -126 : std::max(std::ilogb(expected), -126);
  return std::fabs(static_cast<long double>(found) - expected) / std::ldexp(1.0L, exponent - 23);
}

bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (a != a && b != b);
}

}  // namespace

TEST_CASE("sine and cosine of any angle") {
  for (std::uint64_t pattern = 0; pattern < 0x7F800000; pattern += 2003) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(pattern));
    const auto angle = static_cast<long double>(x);
    CAPTURE(x);
    CHECK(error_in_units(sin_of(x), std::sin(angle)) <= 0.51L);
    CHECK(error_in_units(cos_of(x), std::cos(angle)) <= 0.51L);
    CHECK(sin_of(-x) == -sin_of(x));
    CHECK(cos_of(-x) == cos_of(x));
  }
  // Multiples of a quarter turn, where next to nothing is left.
  for (int k = 1; k < 100000; ++k) {
    const auto x = static_cast<float>(k * (M_PI / 2));
    CHECK(error_in_units(sin_of(x), std::sin(static_cast<long double>(x))) <= 0.51L);
    CHECK(error_in_units(cos_of(x), std::cos(static_cast<long double>(x))) <= 0.51L);
  }
  CHECK(same(sin_of(0.0F), 0.0F));
  CHECK(same(sin_of(-0.0F), -0.0F));
  CHECK(cos_of(0) == 1);
  for (const float none : {INFINITY, -INFINITY, NAN}) {
    CHECK(std::isnan(sin_of(none)));
    CHECK(std::isnan(cos_of(none)));
  }
}

TEST_CASE("powers of any size, and C's special cases") {
  std::mt19937 engine(4);
  for (int round = 0; round < 200000; ++round) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(engine() & 0x7FFFFFFF));
    if (!std::isfinite(x) || x == 0) continue;
    // Exponents that bring the result into the range, and a little beyond.
    const double most = 110 / std::max(std::fabs(std::log(static_cast<double>(x))), 1e-3);
    const auto y = static_cast<float>(std::uniform_real_distribution<double>(-most, most)(engine));
    CAPTURE(x);
    CAPTURE(y);
    const long double expected = std::pow(static_cast<long double>(x), static_cast<long double>(y));
    CHECK(error_in_units(pow_of(x, y), expected) <= 0.51L);
  }
  const float values[] = {0.0F,  -0.0F, 1,      -1,    2,        -2,       3,        -3,        0.5F, -0.5F,
                          0.25F, 1e10F, -1e10F, 1e30F, 16777215, 16777216, INFINITY, -INFINITY, NAN};
  for (const float x : values) {
    for (const float y : values) {
      CAPTURE(x);
      CAPTURE(y);
      const auto expected = static_cast<float>(std::pow(static_cast<double>(x), static_cast<double>(y)));
      CHECK(same(pow_of(x, y), expected));
    }
  }
}
