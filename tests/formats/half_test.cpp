#include "formats/half.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace crumb {
namespace {

/// binary16 as its definition reads.
double f16_value(unsigned bits) {
  const int exponent = static_cast<int>((bits >> 10) & 31u);
  const int mantissa = static_cast<int>(bits & 1023u);
  const double sign = (bits & 0x8000u) != 0 ? -1.0 : 1.0;
  if (exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
  return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25));
}

TEST_CASE("every f16 widens to its value and narrows back to its bits") {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float value = f16_to_float(static_cast<std::uint16_t>(bits));
    const double expected = f16_value(bits);
    if (std::isnan(expected)) {
      REQUIRE(std::isnan(value));
      REQUIRE(float_to_f16(value) == (bits | 0x200u));
    } else {
      REQUIRE(static_cast<double>(value) == expected);
      REQUIRE(std::signbit(value) == ((bits & 0x8000u) != 0));
      REQUIRE(float_to_f16(value) == bits);
    }
  }
}

TEST_CASE("narrowing to f16 rounds half to even between all neighbours") {
  for (unsigned bits = 0; bits < 0x7c00; ++bits) {
    const double low = f16_value(bits);
    const double high = bits + 1 == 0x7c00 ? 65536.0 : f16_value(bits + 1);
    const auto middle = static_cast<float>((low + high) / 2);
    const unsigned even = (bits & 1u) == 0 ? bits : bits + 1;
    REQUIRE(float_to_f16(middle) == even);
    REQUIRE(float_to_f16(-middle) == (even | 0x8000u));
    REQUIRE(float_to_f16(std::nextafter(middle, 0.0F)) == bits);
    REQUIRE(float_to_f16(std::nextafter(middle, 1e9F)) == bits + 1);
  }
  CHECK(float_to_f16(65519.99F) == 0x7bff);
  CHECK(float_to_f16(65520.0F) == 0x7c00);
  CHECK(float_to_f16(std::numeric_limits<float>::max()) == 0x7c00);
  CHECK(float_to_f16(-std::numeric_limits<float>::infinity()) == 0xfc00);
  CHECK(float_to_f16(std::numeric_limits<float>::denorm_min()) == 0);
  CHECK(float_to_f16(std::bit_cast<float>(0xff800001u)) == 0xfe00);
}

TEST_CASE("bf16 is the upper half of a float32, rounded half to even") {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float value = bf16_to_float(static_cast<std::uint16_t>(bits));
    REQUIRE(std::bit_cast<std::uint32_t>(value) == bits << 16);
    REQUIRE(float_to_bf16(value) == (std::isnan(value) ? bits | 0x40u : bits));
    if ((bits & 0x7fffu) >= 0x7f80u) continue;
    REQUIRE(float_to_bf16(std::bit_cast<float>(bits << 16 | 0x7fffu)) == bits);
    REQUIRE(float_to_bf16(std::bit_cast<float>(bits << 16 | 0x8000u)) == bits + (bits & 1u));
    REQUIRE(float_to_bf16(std::bit_cast<float>(bits << 16 | 0x8001u)) == bits + 1);
  }
  CHECK(float_to_bf16(std::bit_cast<float>(0x7f800001u)) == 0x7fc0);
  static_assert(float_to_bf16(1.0F) == 0x3f80 && f16_to_float(0x3555) > 0.333F);
}

}  // namespace
}  // namespace crumb
