// Maxima over windows of a row: every way has the bits of the definition, reads nothing behind the
// last element, and writes nothing else.
#include "runtime/ops/larger_floats.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "base/processor.h"

namespace crumb::runtime {
namespace {

using LargestWay = void (*)(const RowTaps& from, std::size_t count, float* to);

/// Numbers of which many are equal, zeros of both signs, infinities, and NaN with payloads of their own.
float drawn_element(std::mt19937_64& engine, bool has_special) {
  const std::uint64_t kind = engine() % 16;
  if (kind < 2) return kind == 0 ? 0.0F : -0.0F;
  if (has_special && kind == 2)
    return std::bit_cast<float>(0x7FC00000U | static_cast<std::uint32_t>(engine() % 999));
  if (has_special && kind == 3)
    return (engine() % 2 == 0 ? 1.0F : -1.0F) * std::numeric_limits<float>::infinity();
  return static_cast<float>(static_cast<int>(engine() % 41) - 20);
}

std::vector<std::uint32_t> made_by(LargestWay way, const RowTaps& from, std::size_t count) {
  std::vector<float> to(count + 2, 7.0F);  // one before, one behind
  way(from, count, to.data() + 1);
  std::vector<std::uint32_t> bits;
  for (const float v : to) bits.push_back(std::bit_cast<std::uint32_t>(v));
  return bits;
}

}  // namespace

TEST_CASE("largest of taps: every way has the definition's bits, of NaN too, and reads nothing beyond") {
  std::mt19937_64 engine(61);
  for (int round = 0; round < 6000; ++round) {
    CAPTURE(round);
    const std::size_t count = engine() % 70, taps = engine() % 10, stride = 1 + engine() % 4;
    std::vector<std::size_t> offsets;
    for (std::size_t t = 0; t < taps; ++t) offsets.push_back(engine() % 200);
    const std::size_t farthest = taps == 0 ? 0 : *std::ranges::max_element(offsets);
    std::vector<float> x(taps == 0 || count == 0 ? 0 : farthest + (count - 1) * stride + 1);
    for (float& v : x) v = drawn_element(engine, round % 3 == 0);
    const RowTaps from{x.data(), offsets, stride};
    const auto expected = made_by(largest_of_taps_ref, from, count);
    CHECK(made_by(largest_of_taps, from, count) == expected);
    if (may_use(Isa::kAvx2)) CHECK(made_by(largest_of_taps_avx2, from, count) == expected);
    if (may_use(Isa::kAvx512)) CHECK(made_by(largest_of_taps_avx512, from, count) == expected);
  }
}

}  // namespace crumb::runtime
