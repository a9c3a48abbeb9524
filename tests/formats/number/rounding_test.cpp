// Rounding modes against QONNX's definitions in float32, and the statistics of stochastic rounding.
#include "formats/number/rounding.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "tests/formats/number/oracle.h"

using crumb::round_to_integer;
using crumb::Rounding;

TEST_CASE("rounding: the table of ties") {
  const float ties[] = {-2.5F, -1.5F, -0.5F, -0.4F, 0.4F, 0.5F, 1.5F, 2.5F};
  const struct {
    Rounding mode;
    float expected[8];
  } rows[] = {
      {Rounding::kHalfEven, {-2, -2, 0, 0, 0, 0, 2, 2}}, {Rounding::kHalfUp, {-3, -2, -1, 0, 0, 1, 2, 3}},
      {Rounding::kHalfDown, {-2, -1, 0, 0, 0, 0, 1, 2}}, {Rounding::kCeil, {-2, -1, 0, 0, 1, 1, 2, 3}},
      {Rounding::kFloor, {-3, -2, -1, -1, 0, 0, 1, 2}},  {Rounding::kUp, {-3, -2, -1, -1, 1, 1, 2, 3}},
      {Rounding::kDown, {-2, -1, 0, 0, 0, 0, 1, 2}}};
  for (const auto& row : rows) {
    CAPTURE(crumb::rounding_name(row.mode));
    for (size_t i = 0; i < 8; ++i) CHECK(round_to_integer(ties[i], {row.mode}) == row.expected[i]);
  }
}

TEST_CASE("rounding: QONNX's float32 traps are kept") {
  CHECK(round_to_integer(0.49999997F, {Rounding::kHalfUp}) == 1);
  CHECK(round_to_integer(8388609.0F, {Rounding::kHalfUp}) == 8388610.0F);
  CHECK(round_to_integer(0.49999997F, {Rounding::kHalfEven}) == 0);
}

TEST_CASE("rounding: every mode equals its definition on halves, their neighbours and random bits") {
  std::vector<float> inputs;
  for (int k = -600; k <= 600; ++k) {
    const float tie = static_cast<float>(k) / 2;
    inputs.insert(inputs.end(), {tie, std::nextafter(tie, -HUGE_VALF), std::nextafter(tie, HUGE_VALF)});
  }
  std::mt19937 engine(5);
  while (inputs.size() < 30000) {
    const float v = std::bit_cast<float>(static_cast<uint32_t>(engine()));
    if (std::isfinite(v)) inputs.push_back(v);
  }
  for (const crumb::RoundingName& row : crumb::kRoundingNames) {
    if (row.rounding == Rounding::kStochastic) continue;
    CAPTURE(row.name);
    CHECK(crumb::kRoundingNames[static_cast<size_t>(row.rounding)].name == row.name);
    int wrong = 0;
    for (const float v : inputs) {
      wrong += round_to_integer(v, {row.rounding}) != crumb::testing::oracle_round(row.name, v);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("rounding: stochastic rounding is unbiased, seeded, and leaves integers alone") {
  constexpr int kDraws = 40000;
  for (const float v : {0.25F, -0.25F, 3.9F, -7.5F, 0.001F}) {
    CAPTURE(v);
    double sum = 0;
    for (uint64_t i = 0; i < kDraws; ++i) {
      const float r = round_to_integer(v, {Rounding::kStochastic, 11}, i);
      REQUIRE((r == std::floor(v) || r == std::ceil(v)));
      sum += static_cast<double>(r);
    }
    CHECK(std::fabs(sum / kDraws - static_cast<double>(v)) < 4 * 0.5 / std::sqrt(kDraws));
  }
  int differ = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    CHECK(round_to_integer(-3.0F, {Rounding::kStochastic, i}, i) == -3);
    const float a = round_to_integer(0.5F, {Rounding::kStochastic, 1}, i);
    CHECK(a == round_to_integer(0.5F, {Rounding::kStochastic, 1}, i));
    differ += a != round_to_integer(0.5F, {Rounding::kStochastic, 2}, i);
  }
  CHECK(differ > 400);
  CHECK(differ < 600);
}

TEST_CASE("rounding: the hash is SplitMix64, as published") {
  // The first numbers of splitmix64.c (Vigna, 2015) from the states 0 and 1234567. A row's index is its state, and each
  // seed one number further.
  const struct {
    uint64_t state;
    uint64_t numbers[5];
  } rows[] = {{0, {0xE220A8397B1DCDAFu, 0x6E789E6AA1B965F4u, 0x06C45D188009454Fu}},
              {1234567,
               {6457827717110365317u, 3203168211198807973u, 9817491932198370423u, 4593380528125082431u,
                16408922859458223821u}}};
  for (const auto& row : rows) {
    for (uint64_t seed = 0; seed < 5 && row.numbers[seed] != 0; ++seed) {
      CAPTURE(seed);
      CHECK(crumb::uniform_hash(seed, row.state) ==
            static_cast<float>(row.numbers[seed] >> 40) / 16777216.0F);
    }
  }
}

TEST_CASE("rounding: the hash is uniform in [0, 1) and never repeats along a row") {
  int buckets[16] = {};
  for (uint64_t i = 0; i < 16000; ++i) {
    const float u = crumb::uniform_hash(3, i);
    REQUIRE(u >= 0);
    REQUIRE(u < 1);
    ++buckets[static_cast<int>(u * 16)];
  }
  for (const int count : buckets) CHECK(std::abs(count - 1000) < 150);
}
