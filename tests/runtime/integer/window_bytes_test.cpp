// Loops over bytes: every way does what the definition says, and writes nothing else.
#include "runtime/integer/window_bytes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/processor.h"
#include "runtime/integer/byte_products.h"
#include "tests/support/testing.h"

namespace crumb::runtime::integer {

TEST_CASE("four rows are interleaved to vectors") {
  std::mt19937_64 engine(5);
  std::vector<std::uint8_t> bytes(400);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(engine());
  for (std::size_t vectors = 1; vectors <= kMostVectors; ++vectors) {
    const std::size_t step = kVectorBytes * 3;
    const std::uint8_t* const rows[] = {bytes.data() + 3, bytes.data() + 70, bytes.data() + 311,
                                        bytes.data()};
    std::vector<std::uint8_t> expected(4 * step, 99);
    for (std::size_t i = 0; i < vectors * kVectorBytes; ++i) {
      const std::size_t v = i / kVectorBytes, lane = i % kVectorBytes / kGroup, row = i % kGroup;
      expected[v * step + i % kVectorBytes] = rows[row][v * kLanes + lane];
    }
    const auto check = [&](const auto& way) {
      std::vector<std::uint8_t> made(4 * step, 99);
      way(made.data());
      REQUIRE(made == expected);
    };
    check([&](std::uint8_t* to) { interleave(rows, vectors, to, step); });
    check([&](std::uint8_t* to) { interleave_portable(rows, vectors, to, step); });
    if (may_use(Isa::kAvx512) && vectors == kMostVectors)
      check([&](std::uint8_t* to) { interleave_avx512(rows, to, step); });
  }
  if (!may_use(Isa::kAvx512)) testing::skip("AVX-512: this processor has none, or may not use it");
}

TEST_CASE("windows slide over a channel") {
  std::mt19937_64 engine(6);
  for (int round = 0; round < 400; ++round) {
    const std::size_t count = engine() % 150, terms = engine() % 12;
    std::vector<std::uint8_t> x(count + 64 + kSlack);
    std::vector<std::size_t> offsets(terms);
    std::vector<std::int8_t> weights(terms);
    for (std::uint8_t& v : x) v = engine() % 4 == 0 ? 255 : static_cast<std::uint8_t>(engine());
    for (std::size_t& offset : offsets) offset = engine() % 64;
    for (std::int8_t& w : weights) w = engine() % 4 == 0 ? -128 : static_cast<std::int8_t>(engine());
    const auto start = static_cast<std::int32_t>(engine() % 2000) - 1000;
    std::vector<std::int32_t> expected(count);
    for (std::size_t i = 0; i < count; ++i) {
      expected[i] = start;
      for (std::size_t t = 0; t < terms; ++t) expected[i] += weights[t] * x[offsets[t] + i];
    }
    const Slide window{x.data(), offsets.data(), weights.data(), terms, start};
    const auto check = [&](const auto& way) {
      std::vector<std::int32_t> sums(count + kSlack + 4, 77);
      way(window, sums.data(), count);
      REQUIRE(std::equal(expected.begin(), expected.end(), sums.begin()));
      REQUIRE(std::count(sums.end() - 4, sums.end(), 77) == 4);
    };
    check(slide);
    check(slide_portable);
    if (may_use(Isa::kAvx2)) check(slide_avx2);
  }
}

}  // namespace crumb::runtime::integer
