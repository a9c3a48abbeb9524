#include "runtime/fast/row_sums.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <span>
#include <vector>

#include "base/processor.h"
#include "tests/support/testing.h"

namespace crumb::runtime {
namespace {

TEST_CASE("row sums: those of the definition, of all sizes, at the ends of both sides") {
  std::mt19937 engine(3);
  for (int round = 0; round < 2000; ++round) {
    const std::size_t terms = 1 + engine() % 700;
    const std::size_t block =
        round % 3 == 0 ? 32 * (1 + engine() % 4) : 1 + engine() % (round % 3 == 1 ? 40 : 900);
    const bool extreme = round % 5 == 0;
    std::vector<std::int8_t> q(terms), levels(terms);
    for (std::size_t k = 0; k < terms; ++k) {
      q[k] = static_cast<std::int8_t>(extreme ? (engine() % 2 ? 127 : -127)
                                              : static_cast<int>(engine() % 255) - 127);
      levels[k] = static_cast<std::int8_t>(extreme ? (engine() % 4 ? -128 : 127)
                                                   : static_cast<int>(engine() % 256) - 128);
    }
    std::vector<std::int32_t> made((terms + block - 1) / block + 1, 77), expected(made);
    block_sums_ref(q.data(), levels.data(), terms, block, expected.data());
    block_sums(q.data(), levels.data(), terms, block, made.data());
    REQUIRE(made == expected);
    CHECK(made.back() == 77);
  }
  if (!may_use(Isa::kAvx2)) testing::skip("this processor has no AVX2: nothing but the definition was run");
}

TEST_CASE("row sums: packed codes of four bits give the sums of their levels") {
  std::mt19937 engine(5);
  for (int round = 0; round < 500; ++round) {
    LevelTable by{};
    for (int code = 0; code < 16; ++code)
      by[static_cast<std::size_t>(code)] =
          static_cast<std::int8_t>(round % 3 == 0 ? -128 : static_cast<int>(engine() % 256) - 128);
    const std::size_t terms = kNibbleTerms * (1 + engine() % 20),
                      block = round % 4 == 0 ? kNibbleTerms / 2 : kNibbleTerms * (1 + engine() % 6);
    std::vector<std::uint8_t> packed(terms / 2);
    for (std::uint8_t& two : packed) two = static_cast<std::uint8_t>(engine());
    std::vector<std::int8_t> q(terms), halves(terms), levels(terms);
    for (std::size_t k = 0; k < terms; ++k) {
      q[k] = static_cast<std::int8_t>(round % 3 == 0 ? 127 : static_cast<int>(engine() % 255) - 127);
      levels[k] = by[k % 2 == 0 ? packed[k / 2] & 15 : packed[k / 2] >> 4];
    }
    to_halves(q.data(), terms, halves.data());
    std::vector<std::int32_t> expected((terms + block - 1) / block + 1, 77), made(expected),
        by_definition(expected);
    block_sums_ref(q.data(), levels.data(), terms, block, expected.data());
    nibble_sums_ref(by, halves.data(), packed.data(), terms, block, by_definition.data());
    nibble_sums(by, halves.data(), packed.data(), terms, block, made.data());
    REQUIRE(by_definition == expected);
    REQUIRE(made == expected);
  }
}

TEST_CASE("row sums: levels are those of the codes, in place too") {
  std::mt19937 engine(4);
  LevelTable by;
  for (std::int8_t& level : by) level = static_cast<std::int8_t>(engine() % 256);
  for (int round = 0; round < 500; ++round) {
    const int bits = 1 + static_cast<int>(engine() % 8);
    std::vector<std::uint8_t> codes(1 + engine() % 200);
    for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>(engine() % (1U << bits));
    std::vector<std::int8_t> made(codes.size()), expected(codes.size());
    levels_of_ref(by, codes.data(), codes.size(), expected.data());
    levels_of(by, bits, codes.data(), codes.size(), made.data());
    REQUIRE(made == expected);
    LevelTable twos;
    for (int code = 0; code < 1 << bits; ++code)
      twos[static_cast<std::size_t>(code)] =
          static_cast<std::int8_t>(code < 1 << (bits - 1) ? code : code - (1 << bits));
    std::vector<std::int8_t> extended(codes.size()), by_table(codes.size());
    levels_of_ref(twos, codes.data(), codes.size(), by_table.data());
    extend_sign(bits, codes.data(), codes.size(), extended.data());
    REQUIRE(extended == by_table);
    auto* const in_place = reinterpret_cast<std::int8_t*>(codes.data());
    levels_of(by, bits, codes.data(), codes.size(), in_place);
    REQUIRE(std::ranges::equal(expected, std::span(in_place, codes.size())));
  }
}

}  // namespace
}  // namespace crumb::runtime
