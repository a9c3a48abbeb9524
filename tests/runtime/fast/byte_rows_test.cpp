#include "runtime/fast/byte_rows.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/samples.h"

namespace crumb::runtime {
namespace {

TEST_CASE("byte rows: magnitudes, bytes and sums are those of the definition, of all sizes and odd values") {
  std::mt19937 engine(4);
  constexpr float kOdd[] = {0.0F, -0.0F, 1e-42F, std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()};
  for (int round = 0; round < 3000; ++round) {
    const std::size_t count = engine() % 200;
    std::vector<float> x = testing::normal_values(count + 1, engine());
    if (round % 3 == 0) x[engine() % x.size()] = kOdd[engine() % std::size(kOdd)];
    REQUIRE(largest_bits(x.data(), count) == largest_bits_ref(x.data(), count));
    float largest = 0;
    for (float& value : x) {
      if (!std::isfinite(value)) value = 3;
      if (round % 2 == 0) value = std::nearbyint(value * 8) / 16;  // ties
      largest = std::max(largest, std::abs(value));
    }
    const float inverse = largest == 0 ? 0 : (round % 2 == 0 ? 8 : 127 / largest);
    std::vector<std::int8_t> made(count + 1, 77), expected(made);
    to_bytes(x.data(), inverse, count, made.data());
    to_bytes_ref(x.data(), inverse, count, expected.data());
    REQUIRE(made == expected);
    const std::size_t block = 1 + engine() % 100;
    std::vector<std::int32_t> sums((count + block - 1) / block + 1, 5), by_definition(sums);
    sum_blocks(made.data(), count, block, sums.data());
    sum_blocks_ref(made.data(), count, block, by_definition.data());
    REQUIRE(sums == by_definition);
  }
}

}  // namespace
}  // namespace crumb::runtime
