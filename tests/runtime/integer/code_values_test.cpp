// Codes of values and values of codes by every instruction set, against their definition.
#include "runtime/integer/code_values.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/processor.h"

namespace crumb::runtime::integer {
namespace {

int code_by_definition(const CodeScale& by, float x) {
  const float v = x / by.scale + by.zero;
  if (by.bipolar) return v >= 0 ? 1 : -1;
  if (std::isnan(v)) return static_cast<int>(by.low);
  return static_cast<int>(std::nearbyint(std::min(std::max(v, by.low), by.high)));
}

}  // namespace

TEST_CASE("code values: every instruction set has the definition's, of any number and so many") {
  std::mt19937_64 engine(5);
  const auto drawn = [&](int least, int most) {
    return static_cast<float>(std::uniform_int_distribution(least, most)(engine));
  };
  constexpr float kOdd[] = {0.0F,
                            -0.0F,
                            1e38F,
                            -1e38F,
                            1e-40F,
                            std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()};
  for (int round = 0; round < 3000; ++round) {
    CodeScale by{.scale = std::ldexp(1 + drawn(0, 99) / 100, static_cast<int>(drawn(-9, 3))),
                 .zero = drawn(-255, 255)};
    by.is_signed = engine() % 2 == 0;
    by.low = by.is_signed ? drawn(-128, 0) : 0;
    by.high = by.low + drawn(1, 127);
    by.bipolar = by.is_signed && engine() % 4 == 0;
    const std::size_t count = 1 + engine() % 70;
    std::vector<float> x(count);
    for (float& v : x) {
      const bool is_tie = engine() % 3 == 0;  // between two codes, where the division is exact
      v = engine() % 8 == 0 ? kOdd[engine() % std::size(kOdd)]
          : is_tie          ? (drawn(-300, 300) / 2 - by.zero) * by.scale
                            : drawn(-100000, 100000) / 777 * by.scale;
    }
    std::vector<std::uint8_t> expected(count), codes(count);
    std::vector<float> expected_values(count), values(count);
    for (std::size_t i = 0; i < count; ++i) {
      const int code = code_by_definition(by, x[i]);
      expected[i] = static_cast<std::uint8_t>(code);
      expected_values[i] = (static_cast<float>(code) - by.zero) * by.scale;
    }
    const bool finite = std::ranges::all_of(x, [](float v) { return std::isfinite(v); });
    const auto check = [&](auto codes_by, auto values_by, auto quantized_by) {
      REQUIRE(codes_by(by, x.data(), count, codes.data()) == finite);
      REQUIRE(codes == expected);
      values_by(by, codes.data(), count, values.data());
      REQUIRE(values == expected_values);
      REQUIRE(quantized_by(by, x.data(), count, values.data()) == finite);
      for (std::size_t i = 0; i < count; ++i) {
        if (std::isnan(x[i]) && !by.bipolar) {
          REQUIRE(std::isnan(values[i]));
        } else {
          REQUIRE(values[i] == expected_values[i]);
          REQUIRE(std::signbit(values[i]) == std::signbit(expected_values[i]));
        }
      }
    };
    check(codes_of, values_of, quantized_of);
    check(codes_of_portable, values_of_portable, quantized_of_portable);
    if (may_use(Isa::kAvx2)) check(codes_of_avx2, values_of_avx2, quantized_of_avx2);
  }
}

}  // namespace crumb::runtime::integer
