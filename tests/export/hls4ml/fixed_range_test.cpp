// Types against numbers: a type holds what it is for, and no narrower one does.
#include "export/hls4ml/fixed_range.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <vector>

#include "formats/number/power_of_two.h"

namespace crumb::exporting::hls4ml {
namespace {

/// What ap_fixed<bits, integer> holds, as ap_types.h says it: whole multiples of 2^(integer - bits).
struct Type {
  bool is_signed = false;
  int bits = 0, integer = 0;
  explicit Type(const std::string& text) {
    is_signed = text.starts_with("ap_fixed");
    REQUIRE(std::sscanf(text.c_str(), is_signed ? "ap_fixed<%d,%d>" : "ap_ufixed<%d,%d>", &bits, &integer) ==
            2);
  }
  bool holds(double value) const {
    const double code = std::ldexp(value, bits - integer);
    const double size = std::ldexp(1.0, is_signed ? bits - 1 : bits);
    return code == std::round(code) && code <= size - 1 && code >= (is_signed ? -size : 0);
  }
};

struct Random {
  std::mt19937 engine{3};
  int below(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine); }
  std::vector<double> numbers() {
    std::vector<double> made(static_cast<std::size_t>(below(1, 5)));
    const int exponent = below(-30, 30), low = below(0, 1) == 0 ? 0 : -200;
    for (double& one : made) one = std::ldexp(below(low, 200), exponent + below(0, 3));
    return made;
  }
};

TEST_CASE("the narrowest type holds its range, and one with a bit less at either end does not") {
  Random random;
  for (int round = 0; round < 20000; ++round) {
    const std::vector<double> numbers = random.numbers();
    const FixedRange range = range_of(numbers).value();
    Type type(narrowest_type(range));
    CHECK(type.bits == bits_of(range));
    for (const double one : numbers) CHECK(type.holds(one));
    if (type.bits == 1) continue;
    const auto all = [&] {
      return std::ranges::all_of(numbers, [&](double one) { return type.holds(one); });
    };
    --type.bits;  // the lowest bit
    CHECK_FALSE(all());
    --type.integer;  // the highest
    CHECK_FALSE(all());
  }
}

TEST_CASE("sums, products and joins hold every sum and product") {
  Random random;
  for (int round = 0; round < 20000; ++round) {
    const std::vector<double> x = random.numbers(), y = random.numbers();
    const FixedRange a = range_of(x).value(), b = range_of(y).value();
    const Type added(narrowest_type(sum(a, b))), multiplied(narrowest_type(product(a, b)));
    const Type both(narrowest_type(joined(a, b))), negative(narrowest_type(negated(a)));
    for (const double one : x) {
      CHECK(both.holds(one));
      CHECK(negative.holds(-one));
      for (const double other : y) {
        CHECK(both.holds(other));
        CHECK(added.holds(one + other));
        CHECK(multiplied.holds(one * other));
      }
    }
  }
}

TEST_CASE("zero keeps no grid, and what is no number has no range") {
  const FixedRange zero = range_of(std::vector<double>{0, 0}).value();
  CHECK(narrowest_type(zero) == "ap_ufixed<1,1>");
  CHECK(sum(zero, {4, 16, 48}) == FixedRange{4, 16, 48});
  CHECK(joined({4, 16, 48}, zero) == FixedRange{4, 0, 48});
  CHECK_FALSE(range_of(std::vector<double>{1, std::numeric_limits<double>::quiet_NaN()}));
  CHECK_FALSE(range_of(std::vector<double>{std::numeric_limits<double>::infinity()}));
}

TEST_CASE("float32 holds what has 24 bits") {
  Random random;
  for (int round = 0; round < 20000; ++round) {
    const FixedRange range = range_of(random.numbers()).value();
    if (range.is_exact_in_float32()) {
      for (const double end : {range.low, range.high})
        CHECK(static_cast<double>(static_cast<float>(end)) == end);
    }
  }
  CHECK(FixedRange{0, 0, 16777216}.is_exact_in_float32());
  CHECK_FALSE(FixedRange{0, 0, 16777217}.is_exact_in_float32());
  CHECK_FALSE(FixedRange{0, -16777217, 0}.is_exact_in_float32());
  CHECK(FixedRange{-149, 0, 0x1p-149}.is_exact_in_float32());
  CHECK_FALSE(FixedRange{-150, 0, 0x1p-150}.is_exact_in_float32());
}

TEST_CASE("exponents are those of powers of two alone") {
  for (int exponent = -60; exponent <= 60; ++exponent) {
    CHECK(exponent_of(std::ldexp(1.0, exponent)) == exponent);
    CHECK_FALSE(exponent_of(std::ldexp(1.5, exponent)));
    CHECK_FALSE(exponent_of(-std::ldexp(1.0, exponent)));
  }
  CHECK_FALSE(exponent_of(0));
  CHECK_FALSE(exponent_of(std::numeric_limits<double>::infinity()));
}

}  // namespace
}  // namespace crumb::exporting::hls4ml
