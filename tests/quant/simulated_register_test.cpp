// Registers of P bits against sums that are counted another way.
#include "quant/accumulator/simulated_register.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "base/error.h"

using crumb::OverflowMode;
using crumb::Overflows;
using crumb::SimulatedRegister;

namespace {

using Ints = std::vector<std::int64_t>;

struct Row {
  Ints codes, inputs;
  std::int64_t start = 0;
};

Row random_row(std::mt19937& engine, int most_code, int most_input) {
  std::uniform_int_distribution<int> length(0, 19), code(-most_code, most_code),
      input(-most_input, most_input);
  Row row{.codes = Ints(static_cast<std::size_t>(length(engine))), .inputs = {}, .start = code(engine)};
  row.inputs.resize(row.codes.size());
  for (auto& c : row.codes) c = code(engine);
  for (auto& x : row.inputs) x = input(engine);
  return row;
}

std::int64_t exact(const Row& row) {
  return std::inner_product(row.codes.begin(), row.codes.end(), row.inputs.begin(), row.start);
}

}  // namespace

TEST_CASE("a wide register holds the exact sum") {
  std::mt19937 engine(1);
  for (int i = 0; i < 300; ++i) {
    const Row row = random_row(engine, 1 << 20, 1 << 28);
    for (const auto mode : {OverflowMode::kCheck, OverflowMode::kWrap, OverflowMode::kSaturate}) {
      Overflows overflows;
      CHECK(SimulatedRegister(63, mode).sum(row.start, row.codes, row.inputs, overflows) == exact(row));
      CHECK(overflows.count == 0);
      CHECK(!overflows.first);
    }
  }
}

TEST_CASE("wrapping gives the exact sum modulo 2^P, in two's complement") {
  std::mt19937 engine(2);
  for (int i = 0; i < 600; ++i) {
    const Row row = random_row(engine, 9, 40);
    const int bits = 2 + i % 12;
    const std::int64_t size = std::int64_t{1} << bits;
    std::int64_t expected = ((exact(row) % size) + size) % size;
    if (expected >= size / 2) expected -= size;
    Overflows overflows;
    CHECK(SimulatedRegister(bits, OverflowMode::kWrap).sum(row.start, row.codes, row.inputs, overflows) ==
          expected);
  }
}

TEST_CASE("check finds exactly the prefixes that do not fit, and goes on with the exact sum") {
  std::mt19937 engine(3);
  for (int i = 0; i < 600; ++i) {
    const Row row = random_row(engine, 9, 40);
    const int bits = 2 + i % 12;
    const std::int64_t high = (std::int64_t{1} << (bits - 1)) - 1;
    std::int64_t count = 0, sum = row.start;
    std::optional<Overflows::First> first;
    for (std::size_t term = 0; term <= row.codes.size(); ++term) {
      if (term > 0) sum += row.codes[term - 1] * row.inputs[term - 1];
      if (sum <= high && sum >= -high - 1) continue;
      if (count++ == 0) first = {sum, term};
    }
    Overflows overflows;
    CHECK(SimulatedRegister(bits, OverflowMode::kCheck).sum(row.start, row.codes, row.inputs, overflows) ==
          sum);
    CHECK(overflows.count == count);
    CHECK(overflows.first == first);
  }
}

TEST_CASE("saturation clamps every addition; larger starts never give smaller sums") {
  std::mt19937 engine(4);
  for (int i = 0; i < 600; ++i) {
    Row row = random_row(engine, 9, 40);
    const int bits = 2 + i % 12;
    const std::int64_t high = (std::int64_t{1} << (bits - 1)) - 1;
    std::int64_t expected = std::clamp(row.start, -high - 1, high);
    for (std::size_t term = 0; term < row.codes.size(); ++term) {
      expected = std::clamp(expected + row.codes[term] * row.inputs[term], -high - 1, high);
    }
    const SimulatedRegister wide(bits, OverflowMode::kSaturate);
    Overflows overflows;
    const std::int64_t found = wide.sum(row.start, row.codes, row.inputs, overflows);
    CHECK(found == expected);
    CHECK(wide.sum(row.start + 1 + i % 5, row.codes, row.inputs, overflows) >= found);
    if (!row.codes.empty()) {  // and so for its last term
      row.codes.back() += row.inputs.back() >= 0 ? 1 : -1;
      CHECK(wide.sum(row.start, row.codes, row.inputs, overflows) >= found);
    }
  }
}

TEST_CASE("registers at the ends of their widths") {
  Overflows none;
  const Ints ones(2, 1), most{crumb::kMostSimulatedSum, 0};
  CHECK(SimulatedRegister(63, OverflowMode::kCheck).sum(0, ones, most, none) == crumb::kMostSimulatedSum);
  CHECK(none.count == 0);
  const Ints up{1, 1};
  CHECK(SimulatedRegister(2, OverflowMode::kWrap).sum(0, ones, up, none) == -2);
  CHECK(SimulatedRegister(2, OverflowMode::kSaturate).sum(0, ones, up, none) == 1);
  CHECK(SimulatedRegister(63, OverflowMode::kWrap).sum(1, ones, most, none) == -crumb::kMostSimulatedSum - 1);
  for (const int bits : {-1, 0, 1, 64})
    CHECK_THROWS_AS(SimulatedRegister(bits, OverflowMode::kWrap), crumb::Error);
}
