#include "runtime/fast/row_sums.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "base/processor.h"
#include "tests/support/number_bits.h"
#include "tests/support/samples.h"
#include "tests/support/testing.h"

namespace crumb::runtime {
namespace {

ByteRows drawn_rows(std::mt19937& engine, std::size_t rows, std::size_t terms, std::size_t block) {
  ByteRows made;
  made.rows = rows;
  made.terms = terms;
  made.stride = (terms + 63) / 64 * 64;
  made.block = std::min(block, terms);
  made.blocks = (terms + made.block - 1) / made.block;
  made.q.assign(rows * made.stride, 0);
  made.sums.resize(rows * made.blocks);
  const bool is_extreme = engine() % 3 == 0;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t k = 0; k < terms; ++k) {
      made.q[r * made.stride + k] = static_cast<std::int8_t>(
          is_extreme ? (engine() % 8 ? 127 : -127) : static_cast<int>(engine() % 255) - 127);
    }
    sum_blocks_ref(made.row(r), terms, made.block, made.sums.data() + r * made.blocks);
  }
  return made;
}

/// Levels of so many bits, as wide as kernels take them.
LevelCodes drawn_levels(std::mt19937& engine, int bits) {
  LevelCodes made{.bits = bits};
  const std::size_t count = std::size_t{1} << bits;
  made.least = static_cast<std::int32_t>(engine() % 256) - 128;
  if (bits >= 7 || engine() % 2 == 0) made.flip = static_cast<std::uint8_t>(engine() % count);
  static constexpr std::uint32_t kWidths[] = {1, 15, 16, 17, 32, 33, 64, 65, 129, 255};
  const std::uint32_t most = kWidths[engine() % (8 % bits == 0 ? 10 : 9)];
  for (std::size_t code = 0; code < count; ++code)
    made.above[code] = static_cast<std::uint8_t>(made.flip           ? code ^ *made.flip
                                                 : engine() % 4 == 0 ? most
                                                                     : engine() % (most + 1));
  made.widest =
      *std::max_element(made.above.begin(), made.above.begin() + static_cast<std::ptrdiff_t>(count));
  return made;
}

/// Row r of x times row i of the weights, by the sums of q * level, and by codes as a bit stream has them.
float by_definition(const ByteRows& x, std::size_t r, const PackedRows& w, std::size_t i) {
  const auto bits = static_cast<std::size_t>(w.levels->bits);
  float total = 0;
  for (std::size_t b = 0; b < x.blocks; ++b) {
    std::int32_t sum = 0;
    for (std::size_t k = b * x.block; k < std::min(x.terms, (b + 1) * x.block); ++k) {
      std::uint32_t word = 0;
      const std::size_t byte = k * bits / 8;
      std::memcpy(&word, w.codes + i * w.stride + byte, std::min<std::size_t>(2, w.bytes - byte));
      const std::size_t code = (word >> k * bits % 8) & ((std::size_t{1} << bits) - 1);
      const std::int32_t origin = w.blocks.origins ? w.blocks.origins[16 * b + i] : w.blocks.least;
      sum += x.row(r)[k] * (w.levels->above[code] + origin);
    }
    const float weighted = static_cast<float>(sum) * w.blocks.scales[16 * b + i];
    total += weighted;
  }
  return total;
}

TEST_CASE(
    "row sums: rows of all widths and blocks, by every instruction set, have the bits of the definition") {
  std::mt19937 engine(3);
  for (int round = 0; round < (testing::slow() ? 20000 : 2500); ++round) {
    const int bits = 1 + static_cast<int>(engine() % 8);
    const LevelCodes levels = drawn_levels(engine, bits);
    REQUIRE(takes_levels(levels));
    const std::size_t lane = PlaneRows{.bits = bits, .q = {}}.terms_of_lane();
    const std::size_t terms = 1 + engine() % (round % 5 == 0 ? 4000 : 700), rows = 1 + engine() % kPlaneRows;
    static constexpr std::size_t kLanes[] = {1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64, 1000000};
    const ByteRows x = drawn_rows(engine, rows, terms, lane * kLanes[engine() % std::size(kLanes)]);
    const PlaneRows planes = PlaneRows::of(x, bits);
    const std::size_t bytes = (terms * static_cast<std::size_t>(bits) + 7) / 8, apart = bytes + engine() % 3;
    // The bytes end where the last row does, so that reading behind them is seen.
    std::vector<std::uint8_t> codes((kRowsTogether - 1) * apart + bytes);
    for (std::uint8_t& byte : codes) byte = static_cast<std::uint8_t>(engine());
    const std::vector<float> scales = testing::normal_values(16 * x.blocks, engine());
    std::vector<std::int32_t> origins(16 * x.blocks);
    for (std::int32_t& origin : origins) origin = static_cast<std::int32_t>(engine() % 512) - 256;
    const PackedRows w{.codes = codes.data(),
                       .bytes = bytes,
                       .stride = apart,
                       .levels = &levels,
                       .blocks = {.block = x.block,
                                  .scales = scales.data(),
                                  .origins = engine() % 2 == 0 ? origins.data() : nullptr,
                                  .least = levels.least},
                       .sums = x.sums.data(),
                       .sums_stride = x.blocks};
    std::vector<float> expected(rows * kRowsTogether);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t i = 0; i < kRowsTogether; ++i)
        expected[r * kRowsTogether + i] = by_definition(x, r, w, i);
    using Kernel = void (*)(const PlaneRows&, const PackedRows&, float*);
    const std::pair<Kernel, bool> kernels[] = {{weighted_rows_ref, true},
                                               {weighted_rows_avx2, may_use(Isa::kAvx2)},
                                               {weighted_rows_vnni, may_use(Isa::kVnni)},
                                               {weighted_rows, true}};
    for (const auto& [kernel, may_run] : kernels) {
      if (!may_run) continue;
      std::vector<float> made(expected.size(), 77.0F);
      kernel(planes, w, made.data());
      REQUIRE(testing::number_bits(made) == testing::number_bits(expected));
    }
  }
  if (!may_use(Isa::kVnni)) testing::skip("this processor has no AVX-512 VNNI");
}

}  // namespace
}  // namespace crumb::runtime
