// Minifloats: encoding is brute-force nearest-even over all finite values, their midpoints and the floats
// beside them.
#include "formats/number/minifloat.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/formats/number/oracle.h"
#include "tests/support/testing.h"

using crumb::NumberFormat;
using crumb::Overflow;
using crumb::Rounding;
using crumb::testing::OracleFormat;

namespace {

std::vector<const NumberFormat*> minifloats() {
  std::vector<const NumberFormat*> formats;
  for (const NumberFormat& f : crumb::number_formats()) {
    if (f.grid == crumb::Grid::kMinifloat) formats.push_back(&f);
  }
  return formats;
}

/// All finite values, all midpoints of neighbours, and the floats beside them; both signs.
std::vector<float> hard_inputs(const OracleFormat& f) {
  std::set<double> values;
  for (int pattern = 0; pattern < 1 << (f.bits - 1); ++pattern) {
    const double v = crumb::testing::oracle_minifloat(f, pattern);
    if (std::isfinite(v)) values.insert(v);
  }
  std::vector<double> points(values.begin(), values.end());
  for (size_t i = 0; i + 1 < values.size(); ++i) points.push_back((points[i] + points[i + 1]) / 2);
  points.push_back(*values.rbegin() * 1.01);
  std::vector<float> inputs{0.0F,
                            -0.0F,
                            std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::max(),
                            std::numeric_limits<float>::min(),
                            std::numeric_limits<float>::denorm_min()};
  for (const double point : points) {
    const auto v = static_cast<float>(point);
    inputs.insert(inputs.end(), {v, std::nextafter(v, HUGE_VALF), std::nextafter(v, -HUGE_VALF)});
  }
  const size_t half = inputs.size();
  for (size_t i = 0; i < half; ++i) inputs.push_back(-inputs[i]);
  return inputs;
}

std::string first_wrong(const NumberFormat& f, const std::vector<float>& inputs) {
  const OracleFormat oracle = crumb::testing::oracle_format(f.name);
  for (const float v : inputs) {
    const int expected = crumb::testing::oracle_encode_minifloat(oracle, v);
    const int found = crumb::encode_minifloat(f, v);
    if (found != expected) {
      return std::to_string(v) + " gave " + std::to_string(found) + ", expected " + std::to_string(expected);
    }
  }
  return {};
}

}  // namespace

TEST_CASE("minifloats: encoding takes the nearest value, ties to even, over every value and midpoint") {
  for (const NumberFormat* f : minifloats()) {
    CAPTURE(f->name);
    CHECK(first_wrong(*f, hard_inputs(crumb::testing::oracle_format(f->name))) == "");
  }
}

TEST_CASE("minifloats: encoding takes the nearest value of random bits") {
  std::mt19937 engine(1);
  const int count = crumb::testing::slow() ? 40000 : 400;
  for (const NumberFormat* f : minifloats()) {
    CAPTURE(f->name);
    std::vector<float> inputs;
    for (int i = 0; i < count; ++i) {
      const float v = std::bit_cast<float>(static_cast<uint32_t>(engine()));
      if (!std::isnan(v)) inputs.push_back(v);
      // And within the format's reach.
      inputs.push_back(
          std::ldexp(static_cast<float>(engine()) * 0x1p-31F - 1, static_cast<int>(engine() % 24) - 12));
    }
    CHECK(first_wrong(*f, inputs) == "");
  }
}

TEST_CASE("minifloats: without mantissa bits a tie goes up, but half the smallest value goes to zero") {
  for (const NumberFormat* f : minifloats()) {
    if (f->mantissa_bits != 0) continue;
    CAPTURE(f->name);
    const auto values = crumb::value_table(*f);
    CHECK(crumb::encode_minifloat(*f, values[1] / 2) == 0);
    for (uint8_t p = 1; p < crumb::largest_finite_pattern(*f); ++p) {
      // 2^e * round_half_even(x / 2^e), e the exponent of x.
      const float tie = values[p] * 1.5F;
      const float unit = std::ldexp(1.0F, std::ilogb(tie));
      CHECK(values[crumb::encode_minifloat(*f, tie)] == unit * crumb::testing::oracle_round(tie / unit));
      CHECK(crumb::encode_minifloat(*f, tie) == p + 1);
    }
  }
}

TEST_CASE("minifloats: ties of e2m1 as the peers list them") {
  const NumberFormat& f = *crumb::find_number_format("e2m1");
  for (const auto& [x, y] :
       {std::pair{5.0F, 4.0F}, {3.5F, 4.0F}, {2.5F, 2.0F}, {0.25F, 0.0F}, {0.75F, 1.0F}}) {
    CHECK(crumb::decode_minifloat(f, crumb::encode_minifloat(f, x)) == y);
    CHECK(crumb::decode_minifloat(f, crumb::encode_minifloat(f, -x)) == -y);
  }
}

TEST_CASE("minifloats: every finite value encodes to its own pattern") {
  for (const NumberFormat* f : minifloats()) {
    CAPTURE(f->name);
    for (int pattern = 0; pattern < 1 << f->bits; ++pattern) {
      const float v = crumb::decode_minifloat(*f, static_cast<uint8_t>(pattern));
      if (std::isfinite(v)) CHECK(crumb::encode_minifloat(*f, v) == pattern);
    }
  }
}

TEST_CASE("minifloats: overflow saturates or becomes the special code, NaN keeps being one") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const NumberFormat* f : minifloats()) {
    CAPTURE(f->name);
    const float largest = f->largest_value(crumb::Range::kFull);
    const float beyond = largest * 2;
    for (const float sign : {1.0F, -1.0F}) {
      const auto value = [&](float v, Overflow overflow) {
        return crumb::decode_minifloat(*f, crumb::encode_minifloat(*f, v * sign, overflow)) * sign;
      };
      for (const float v : {beyond, inf, std::numeric_limits<float>::max()}) {
        CHECK(value(v, Overflow::kSaturate) == largest);
        const float special = value(v, Overflow::kSpecial);
        switch (f->specials) {
          case crumb::Specials::kNone: CHECK(special == largest); break;
          case crumb::Specials::kIeee: CHECK(special == inf); break;
          case crumb::Specials::kFn:
          case crumb::Specials::kFnuz: CHECK(std::isnan(special)); break;
        }
      }
      CHECK(value(largest, Overflow::kSpecial) == largest);
    }
    if (f->specials == crumb::Specials::kFn || f->specials == crumb::Specials::kFnuz) {
      // NaN keeps the sign of what overflowed where the format has both.
      const int sign_bit = 1 << (f->bits - 1), has_both = f->specials == crumb::Specials::kFn;
      const int pattern = has_both ? sign_bit - 1 : sign_bit;
      CHECK(crumb::encode_minifloat(*f, beyond, Overflow::kSpecial) == pattern);
      CHECK(crumb::encode_minifloat(*f, -beyond, Overflow::kSpecial) ==
            (has_both ? pattern | sign_bit : pattern));
      CHECK(crumb::encode_minifloat(*f, nan) == pattern);
    }
    const float decoded = crumb::decode_minifloat(*f, crumb::encode_minifloat(*f, nan));
    if (f->specials == crumb::Specials::kNone) {
      CHECK(decoded == 0);
    } else {
      CHECK(std::isnan(decoded));
    }
  }
}

TEST_CASE("minifloats: other rounding modes act on units of the last place") {
  const NumberFormat& f = *crumb::find_number_format("e3m2");
  for (const NumberFormat* each :
       {&f, crumb::find_number_format("e4m3fn"), crumb::find_number_format("e2m0")}) {
    const auto values = crumb::value_table(*each);
    const int bias = each->bias, m = each->mantissa_bits;
    std::mt19937 engine(2);
    for (const crumb::RoundingName& row : crumb::kRoundingNames) {
      if (row.rounding == Rounding::kStochastic) continue;
      CAPTURE(row.name);
      for (int i = 0; i < 2000; ++i) {
        const float x =
            std::ldexp(static_cast<float>(engine()) * 0x1p-31F - 1, static_cast<int>(engine() % 12) - 6);
        const int e = std::max(std::ilogb(x) - m, 1 - bias - m);
        const float largest = each->largest_value(crumb::Range::kFull);
        const float y = std::ldexp(crumb::testing::oracle_round(row.name, std::ldexp(x, -e)), e);
        const float expected = std::fmin(std::fmax(y, -largest), largest);
        if (x == 0) continue;
        const float found = values[crumb::encode_minifloat(*each, x, Overflow::kSaturate, {row.rounding})];
        if (found != expected) CHECK(found == expected);
      }
    }
    // Stochastic rounding lands on a neighbour, on average where the value is.
    double sum = 0;
    const float x = 0.71F * each->largest_value(crumb::Range::kFull);
    for (uint64_t i = 0; i < 20000; ++i) {
      sum += static_cast<double>(
          values[crumb::encode_minifloat(*each, x, Overflow::kSaturate, {Rounding::kStochastic, 1}, i)]);
    }
    CHECK(sum / 20000 == doctest::Approx(static_cast<double>(x)).epsilon(0.01));
  }
}
