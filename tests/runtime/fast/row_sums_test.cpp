#include "runtime/fast/row_sums.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#include "base/processor.h"
#include "tests/support/samples.h"
#include "tests/support/testing.h"

namespace crumb::runtime {
namespace {

ByteRows drawn_rows(std::mt19937& engine, std::size_t rows, std::size_t terms) {
  ByteRows made;
  made.rows = rows;
  made.terms = terms;
  made.stride = (terms + 63) / 64 * 64;
  made.q.assign(rows * made.stride, 0);
  const bool is_extreme = engine() % 3 == 0;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t k = 0; k < terms; ++k) {
      made.q[r * made.stride + k] = static_cast<std::int8_t>(
          is_extreme ? (engine() % 8 ? 127 : -127) : static_cast<int>(engine() % 255) - 127);
    }
  }
  return made;
}

TEST_CASE("row sums: lanes have the sums of their terms, of all widths of codes and bytes") {
  std::mt19937 engine(3);
  for (int round = 0; round < (testing::slow() ? 20000 : 2000); ++round) {
    static constexpr int kBits[] = {1, 2, 4, 8}, kWidths[] = {1, 15, 16, 17, 32, 64, 129, 130, 255};
    const int bits = kBits[engine() % 4], width = kWidths[engine() % std::size(kWidths)];
    LevelCodes levels{.bits = bits};
    const std::size_t count = std::size_t{1} << bits;
    if (bits == 8) levels.flip = static_cast<std::uint8_t>(engine() % 2 * 128);
    for (std::size_t code = 0; code < count; ++code)
      levels.above[code] =
          static_cast<std::uint8_t>(bits == 8 ? code ^ *levels.flip : engine() % (width + 1));
    const std::size_t terms = 1 + engine() % 1200, rows = 1 + engine() % kPlaneRows,
                      weights = 1 + engine() % 3;
    const ByteRows x = drawn_rows(engine, rows, terms);
    const PlaneRows planes = PlaneRows::of(x, bits);
    const std::size_t bytes = (terms * static_cast<std::size_t>(bits) + 7) / 8, apart = bytes + engine() % 3;
    std::vector<std::uint8_t> codes(weights * apart);
    for (std::uint8_t& byte : codes) byte = static_cast<std::uint8_t>(engine());
    PackedRows w{.codes = codes.data(),
                 .bytes = bytes,
                 .stride = apart,
                 .rows = weights,
                 .levels = &levels,
                 .widest = 0};
    if (bits == 8 && engine() % 2 == 0) {
      w.levels = nullptr;
      for (std::uint8_t& byte : codes) byte = static_cast<std::uint8_t>(byte % (width + 1));
      w.widest = width;
    } else {
      w.widest =
          *std::max_element(levels.above.begin(), levels.above.begin() + static_cast<std::ptrdiff_t>(count));
    }
    // Rows may overlap: of each the next one's begin stays.
    const std::size_t lanes = planes.chunks() * kChunkLanes, row_stride = lanes - engine() % kChunkLanes,
                      x_stride = row_stride * weights + kChunkLanes + engine() % 3;
    std::vector<std::int32_t> expected(rows * x_stride, 77), made(expected);
    lane_sums_ref(planes, w, {expected.data(), x_stride, row_stride});
    const std::size_t each = planes.terms_of_lane();
    for (std::size_t r = 0; r < rows; ++r) {  // what planes are made for: neighbouring terms
      for (std::size_t n = 0; n < weights; ++n) {
        for (std::size_t lane = 0; lane < row_stride; ++lane) {
          std::int32_t sum = 0;
          for (std::size_t k = lane * each; k < std::min(terms, (lane + 1) * each); ++k) {
            const std::size_t bit = k * static_cast<std::size_t>(bits);
            const auto code =
                static_cast<std::size_t>((codes[n * apart + bit / 8] >> bit % 8) & ((1 << bits) - 1));
            sum += x.row(r)[k] * (w.levels ? levels.above[code] : static_cast<int>(code));
          }
          REQUIRE(expected[r * x_stride + n * row_stride + lane] == sum);
        }
      }
    }
    if (may_use(Isa::kAvx2)) {
      lane_sums_avx2(planes, w, {made.data(), x_stride, row_stride});
      REQUIRE(made == expected);
    }
    if (!may_use(Isa::kVnni)) continue;
    std::ranges::fill(made, 77);
    lane_sums_vnni(planes, w, {made.data(), x_stride, row_stride});
    REQUIRE(made == expected);
  }
  if (!may_use(Isa::kVnni)) testing::skip("this processor has no AVX-512 VNNI");
}

TEST_CASE("row sums: lanes add up to blocks, and blocks to rows in their order") {
  std::mt19937 engine(5);
  for (int round = 0; round < 2000; ++round) {
    const std::size_t each = 1 + engine() % (round % 2 == 0 ? 8 : 70), blocks = 1 + engine() % 40,
                      rows = 1 + engine() % 17;
    std::vector<std::int32_t> lanes(each * blocks + engine() % each), sums(rows * blocks), expected(blocks);
    for (std::int32_t& lane : lanes) lane = static_cast<std::int32_t>(engine()) / 128;
    for (std::int32_t& sum : sums) sum = static_cast<std::int32_t>(engine());
    add_lanes_ref(lanes.data(), lanes.size(), each, expected.data());
    add_lanes(lanes.data(), lanes.size(), each, sums.data());
    REQUIRE(std::equal(expected.begin(), expected.end(), sums.begin()));
    const std::vector<float> scales = testing::normal_values(rows * blocks, engine());
    std::vector<std::int32_t> starts(blocks);
    for (std::int32_t& start : starts) start = static_cast<std::int32_t>(engine()) / 8;
    for (std::int32_t& sum : sums) sum /= 2;
    std::vector<float> made(rows + 1, 7.0F), by_definition(made);
    weighted_sums(sums.data(), starts.data(), scales.data(), rows, blocks, made.data());
    weighted_sums_ref(sums.data(), starts.data(), scales.data(), rows, blocks, by_definition.data());
    REQUIRE(made == by_definition);
  }
}

}  // namespace
}  // namespace crumb::runtime
