// The checked operations against the same in 128 bits, over the numbers at which 64 bits end.
#include "base/checked_size.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace crumb {
namespace {

using checked::Size;
using Wide = unsigned __int128;

/// The exact number as an operation gives it.
Size held(Wide exact) { return exact >> 64 == 0 ? Size(static_cast<std::uint64_t>(exact)) : Size(); }

/// Powers of two and their neighbours, and numbers of every length.
std::vector<std::uint64_t> numbers() {
  std::vector<std::uint64_t> all = {0, 1, 2, 3};
  std::mt19937_64 engine(1);
  for (int bits = 2; bits <= 64; ++bits) {
    const std::uint64_t below = ~std::uint64_t{0} >> (64 - bits);  // 2^bits - 1
    for (const std::uint64_t near : {below - 1, below, below + 1, below + 2}) all.push_back(near);
    all.push_back(engine() >> (64 - bits));
  }
  return all;
}

TEST_CASE("checked sizes: sums and products are exact or nothing") {
  const std::vector<std::uint64_t> all = numbers();
  for (const std::uint64_t a : all) {
    for (const std::uint64_t b : all) {
      REQUIRE(checked::add(a, b) == held(Wide{a} + b));
      REQUIRE(checked::multiply(a, b) == held(Wide{a} * b));
      const Wide up = Wide{a} + b - 1;
      if (b > 0) REQUIRE(checked::align_up(a, b) == (up >> 64 == 0 ? held(up / b * b) : Size()));
      const std::uint64_t three[] = {a, b, a};
      const Size pair = held(Wide{a} * b);
      REQUIRE(checked::product(std::span<const std::uint64_t>(three)) ==
              (pair ? held(Wide{*pair} * a) : Size()));
    }
  }
  CHECK(checked::product(std::span<const std::uint64_t>()) == 1);
}

TEST_CASE("checked sizes: integers with a sign are exact or nothing") {
  using Signed = __int128;
  std::vector<std::int64_t> all;
  for (const std::uint64_t number : numbers())
    for (const std::uint64_t one : {number, ~number, ~number + 1})
      all.push_back(static_cast<std::int64_t>(one));
  const auto within = [](Signed exact) {
    const auto low = static_cast<std::int64_t>(exact);
    return exact == low ? checked::Integer(low) : checked::Integer();
  };
  for (const std::int64_t a : all) {
    for (const std::int64_t b : all) {
      REQUIRE(checked::add_signed(a, b) == within(Signed{a} + b));
      REQUIRE(checked::subtract_signed(a, b) == within(Signed{a} - b));
      REQUIRE(checked::multiply_signed(a, b) == within(Signed{a} * b));
    }
  }
}

TEST_CASE("checked sizes: a range lies in another, or it does not") {
  std::vector<std::uint64_t> all = numbers();
  std::shuffle(all.begin(), all.end(), std::mt19937_64(2));
  all.resize(100);
  for (const std::uint64_t offset : all)
    for (const std::uint64_t length : all)
      for (const std::uint64_t size : all)
        if (checked::fits(offset, length, size) != (Wide{offset} + length <= size))
          FAIL(offset, length, size);
  // Four lengths of 2^62 come to nothing in 64 bits.
  constexpr std::uint64_t kQuarter = std::uint64_t{1} << 62;
  CHECK(checked::fits(0, kQuarter, kQuarter));
  CHECK(!checked::fits(3 * kQuarter, kQuarter, 768));
}

TEST_CASE("checked sizes: nothing stays nothing, and negative numbers are nothing") {
  CHECK(!checked::add(checked::multiply(~std::uint64_t{0}, 2), 1));
  CHECK(!checked::multiply(0, checked::add(~std::uint64_t{0}, 1)));
  CHECK(!checked::align_up(Size(), 64));
  CHECK(!checked::add(-1, 5));
  CHECK(!checked::multiply(std::int64_t{-1}, std::int64_t{-1}));
  CHECK(!checked::fits(-1, 1, 5));
  CHECK(!checked::fits(0, Size(), 5));
  const std::int64_t dims[] = {2, -3};
  CHECK(!checked::product(std::span<const std::int64_t>(dims)));
  CHECK(checked::narrow<std::int64_t>(std::uint64_t{1} << 62) == std::int64_t{1} << 62);
  CHECK(!checked::narrow<std::int64_t>(std::uint64_t{1} << 63));
  CHECK(!checked::narrow<std::uint32_t>(std::uint64_t{1} << 32));
  CHECK(!checked::narrow<int>(-1));
}

}  // namespace
}  // namespace crumb
