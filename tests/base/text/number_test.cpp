// Numbers as text: what is printed comes back, and nothing else does.
#include "base/text/number.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>

using crumb::parse_number;

TEST_CASE("number: whole numbers that T holds, and no others") {
  std::mt19937_64 engine(3);
  for (int round = 0; round < 5000; ++round) {
    const auto bits = static_cast<std::int64_t>(engine()) >> (engine() % 64);
    const std::string text = std::to_string(bits);
    CAPTURE(text);
    CHECK(parse_number<std::int64_t>(text) == bits);
    CHECK(parse_number<std::uint64_t>(text).has_value() == (bits >= 0));
    const bool small = bits >= std::numeric_limits<int>::min() && bits <= std::numeric_limits<int>::max();
    CHECK(parse_number<int>(text).has_value() == small);
    for (const char* around : {" ", "+", ".", "x", "e1", ","}) {
      CHECK_FALSE(parse_number<std::int64_t>(around + text));
      CHECK_FALSE(parse_number<std::int64_t>(text + around));
    }
  }
  CHECK(parse_number<std::uint64_t>("18446744073709551615") == ~std::uint64_t{0});
  for (const char* none : {"", "-", "18446744073709551616", "0x1", "--1", "-1"})
    CHECK_FALSE(parse_number<std::uint64_t>(none));
  CHECK(parse_number<int>("-0") == 0);
}

TEST_CASE("number: floats with points and exponents") {
  CHECK(parse_number<double>("0.5") == 0.5);
  CHECK(parse_number<double>("-1e-3") == -1e-3);
  CHECK(parse_number<double>(".25") == 0.25);
  CHECK(std::isnan(parse_number<double>("nan").value()));
  for (const char* none : {"", ".", "1e999", "1e-999", "+1", "1 ", " 1", "1..2", "0x1p3", "one"})
    CHECK_FALSE(parse_number<double>(none));
}
