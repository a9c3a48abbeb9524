#include "runtime/fast/tile_sums.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "base/processor.h"
#include "runtime/fast/square_sums.inc"
#include "tests/runtime/fast/emulated_squares.h"
#include "tests/support/testing.h"

namespace crumb::runtime {

#if defined(__x86_64__)
AddSquares squares_by_emulation() { return may_use(Isa::kAvx512) ? add_squares<EmulatedTiles> : nullptr; }
#else
AddSquares squares_by_emulation() { return nullptr; }
#endif

namespace {

constexpr std::size_t kRows = kTileRows;

/// Levels of a drawn kind: the codes but for a bit, or any table.
LevelCodes drawn_levels(std::mt19937& engine) {
  LevelCodes made{.bits = static_cast<int>(1 + engine() % 8)};
  const std::size_t count = std::size_t{1} << made.bits;
  const bool is_flipped = made.bits > 6 || engine() % 2 == 0;
  static constexpr int kWidths[] = {1, 3, 15, 16, 24, 32, 33, 64, 129, 130, 255};
  const int width = kWidths[engine() % std::size(kWidths)];
  made.least = static_cast<std::int32_t>(engine() % 256) - 255;
  if (is_flipped) {
    made.flip = static_cast<std::uint8_t>(engine() % 2 == 0 ? 0 : count / 2);
    for (std::size_t code = 0; code < count; ++code)
      made.above[code] = static_cast<std::uint8_t>(code ^ *made.flip);
  } else {
    for (std::size_t code = 0; code < count; ++code)
      made.above[code] = static_cast<std::uint8_t>(engine() % 4 == 0 ? width : engine() % (width + 1));
  }
  made.widest =
      *std::max_element(made.above.begin(), made.above.begin() + static_cast<std::ptrdiff_t>(count));
  return made;
}

/// Rows of activations, their sums by blocks, and the scales of sixteen rows of weights.
struct Drawn {
  ByteTerms x;
  TileBlocks blocks;
  std::vector<std::int8_t> q;
  std::vector<std::int32_t> sums, origins;
  std::vector<float> scales;

  Drawn(std::mt19937& engine, std::size_t rows, std::size_t terms, std::size_t block, std::int32_t least) {
    const std::size_t stride = (terms + 63) / 64 * 64 + 64 * (engine() % 2),
                      count = (terms + block - 1) / block;
    q.assign(rows * stride, 0);
    const bool is_extreme = engine() % 3 == 0;
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t k = 0; k < terms; ++k) {
        q[r * stride + k] = static_cast<std::int8_t>(is_extreme ? (engine() % 8 ? 127 : -127)
                                                                : static_cast<int>(engine() % 255) - 127);
      }
      for (std::size_t b = 0; b < count; ++b) {
        std::int32_t sum = 0;
        for (std::size_t k = b * block; k < std::min(terms, (b + 1) * block); ++k) sum += q[r * stride + k];
        sums.push_back(sum);
      }
    }
    for (std::size_t i = 0; i < count * kRows; ++i) {
      scales.push_back(static_cast<float>(engine()) * 0x1p-32F - 0.25F);
      origins.push_back(least - static_cast<std::int32_t>(engine() % 256));
    }
    x = {.q = q.data(),
         .stride = stride,
         .rows = rows,
         .terms = terms,
         .sums = sums.data(),
         .sums_stride = count};
    blocks = {.block = block,
              .scales = scales.data(),
              .origins = engine() % 2 == 0 ? origins.data() : nullptr,
              .least = least};
  }
};

/// What the kernels of each instruction set make, of those that this processor has.
template <class Call>
void by_each(const Call& reference, const Call& avx2, const Call& vnni, const std::vector<float>& start) {
  std::vector<float> expected(start);
  reference(expected.data());
  std::vector<float> made(start);
  if (may_use(Isa::kAvx2)) {
    avx2(made.data());
    REQUIRE(made == expected);
  }
  if (!may_use(Isa::kVnni)) return;
  made = start;
  vnni(made.data());
  REQUIRE(made == expected);
}

TEST_CASE("tile sums: those of the definition, of all widths, tables, blocks and numbers of rows") {
  std::mt19937 engine(11);
  for (int round = 0; round < (testing::slow() ? 20000 : 2000); ++round) {
    const LevelCodes levels = drawn_levels(engine);
    const std::size_t terms = 1 + engine() % 300;
    const std::size_t block = engine() % 4 == 0                       ? terms
                              : levels.bits == 4 && engine() % 2 == 0 ? 16
                                                                      : 32 * (1 + engine() % 3);
    const std::size_t tiles = (terms + kTileCols - 1) / kTileCols;
    CAPTURE(levels.bits);
    CAPTURE(terms);
    CAPTURE(block);
    const Drawn drawn(engine, 1 + engine() % kFewByteRows, terms, std::min(block, terms), levels.least);
    std::vector<std::uint8_t> codes(tiles * tile_bytes(levels.bits));
    for (std::uint8_t& byte : codes) byte = static_cast<std::uint8_t>(engine());
    const LevelTiles w{.codes = codes.data(), .levels = &levels, .blocks = drawn.blocks};
    using Call = std::function<void(float*)>;
    by_each<Call>([&](float* made) { sum_tiles_ref(drawn.x, w, made); },
                  [&](float* made) { sum_tiles_avx2(drawn.x, w, made); },
                  [&](float* made) { sum_tiles_vnni(drawn.x, w, made); },
                  std::vector<float>(drawn.x.rows * kRows, 7.0F));
    std::vector<std::uint8_t> expected(tiles * kTileRows * kTileCols), made(expected);
    tiles_to_panel_ref(levels, codes.data(), tiles, expected.data());
    tiles_to_panel(levels, codes.data(), tiles, made.data());
    REQUIRE(made == expected);
  }
  if (!may_use(Isa::kVnni)) testing::skip("this processor has no AVX-512 VNNI");
}

TEST_CASE("tile sums: panels give those of the definition, for any number of rows and blocks of fours") {
  std::mt19937 engine(12);
  for (int round = 0; round < (testing::slow() ? 10000 : 1000); ++round) {
    const std::size_t terms = 1 + engine() % 200, rows = 1 + engine() % 40;
    const std::size_t block = std::min(terms, engine() % 4 == 0 ? terms : 4 * (1 + engine() % 24));
    static constexpr int kWidths[] = {0, 1, 15, 43, 129, 130, 255};
    const int width = kWidths[engine() % std::size(kWidths)];
    const Drawn drawn(engine, rows, terms, block, static_cast<std::int32_t>(engine() % 511) - 255);
    std::vector<std::uint8_t> memory((terms + 3) / 4 * kTileLine + kTileLine);
    void* at = memory.data();
    std::size_t space = memory.size();
    auto* const bytes =
        static_cast<std::uint8_t*>(std::align(kTileLine, memory.size() - kTileLine, at, space));
    for (std::size_t i = 0; i < memory.size() - kTileLine; ++i)
      bytes[i] = static_cast<std::uint8_t>(engine() % 4 == 0 ? width : engine() % (width + 1));
    const LevelPanel w{.bytes = bytes, .widest = width, .blocks = drawn.blocks};
    const std::size_t stride = kRows + engine() % 5;
    std::vector<float> start(rows * stride);
    for (float& value : start) value = static_cast<float>(engine() % 1000) / 7;
    using Call = std::function<void(float*)>;
    by_each<Call>([&](float* made) { add_panel_ref(drawn.x, w, made, stride); },
                  [&](float* made) { add_panel_avx2(drawn.x, w, made, stride); },
                  [&](float* made) { add_panel_vnni(drawn.x, w, made, stride); }, start);
  }
}

TEST_CASE("square sums: bytes with signs are levels less the least") {
  std::mt19937 engine(13);
  int without_start = 0;
  for (int round = 0; round < 5000; ++round) {
    LevelCodes levels = drawn_levels(engine);
    if (levels.least + levels.widest > 255) levels.least = 255 - levels.widest;
    const LevelCodes made = signed_bytes(levels);
    for (std::size_t code = 0; code < std::size_t{1} << levels.bits; ++code) {
      const auto byte = static_cast<std::uint8_t>(code);
      REQUIRE(static_cast<std::int8_t>(made.above[code]) + made.least == levels.level(byte));
      if (made.flip) REQUIRE(made.above[code] == (code ^ *made.flip));
    }
    without_start += made.least == 0;
  }
  CHECK(without_start > 1000);
}

#if defined(__x86_64__)
/// Codes of two sixteens of rows of weights, and panels of them.
struct DrawnWeights {
  std::vector<std::uint8_t> codes, memory;

  DrawnWeights(std::mt19937& engine, int bits, std::size_t terms) : codes(terms * kRows) {
    for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>(engine() & ((1U << bits) - 1));
  }
  /// Aligned; behind its end there are bytes of any value.
  const std::uint8_t* panel(const LevelCodes& levels, std::size_t begin, std::size_t end) {
    const std::size_t size = (end - begin + kRegisterLine) * kRows;
    memory.assign(size + kTileLine, 0x5A);
    void* at = memory.data();
    std::size_t space = memory.size();
    auto* const bytes = static_cast<std::uint8_t*>(std::align(kTileLine, size, at, space));
    for (std::size_t k = begin; k < end; ++k) {
      for (std::size_t i = 0; i < kRows; ++i)
        bytes[(k - begin) / 4 * kTileLine + 4 * i + (k - begin) % 4] = levels.above[codes[k * kRows + i]];
    }
    return bytes;
  }
};

/// What squares make, of parts that are drawn: [sixteens of x, 2, 16, 16].
std::vector<float> squares_of(std::mt19937& engine, AddSquares add, const ChunkedRows& x,
                              const LevelCodes& levels, const TileBlocks (&blocks)[2],
                              DrawnWeights (&weights)[2], std::size_t panels) {
  const std::size_t size = x.sixteens() * 2 * kSquare, block = x.block();
  std::vector<float> made(size + 32);
  std::vector<std::int32_t> carried(size + 32, 77);
  std::size_t space = made.size() * sizeof(float), same = space;
  void *to = made.data(), *sums = carried.data();
  std::align(kTileLine, size * sizeof(float), to, space);
  std::align(kTileLine, size * sizeof(float), sums, same);
  for (std::size_t begin = 0, end = 0; begin < x.terms(); begin = end) {
    const std::size_t of_block = (begin / block + 1) * block;
    const bool is_cut = begin % block != 0 || (engine() % 2 == 0 && block > kRegisterLine);
    end = is_cut ? std::min(of_block, begin + kRegisterLine * (1 + engine() % 4))
                 : of_block + engine() % 4 * block;
    end = std::min(end, x.terms());
    PanelPart part{.begin = begin, .end = end, .panels = panels};
    for (std::size_t j = 0; j < panels; ++j) {
      part.panel[j] = {
          .bytes = weights[j].panel(levels, begin, end), .widest = levels.widest, .blocks = blocks[j]};
      part.panel[j].blocks.scales += begin / block * kRows;
      if (blocks[j].origins) part.panel[j].blocks.origins += begin / block * kRows;
    }
    const std::size_t half = x.sixteens() / 4 * 2;  // of x, in two calls
    for (const auto& [first, count] : {std::pair{std::size_t{0}, half}, std::pair{half, x.sixteens() - half}})
      add(x, first, count, part, static_cast<std::int32_t*>(sums) + first * 2 * kSquare,
          static_cast<float*>(to) + first * 2 * kSquare);
  }
  return {static_cast<float*>(to), static_cast<float*>(to) + size};
}

TEST_CASE("square sums: those of panels, for any rows, blocks and parts, by registers and emulated ones") {
  const AddSquares emulated = squares_by_emulation(), by_amx = squares_by_amx();
  if (!emulated) return testing::skip("this processor has no AVX-512");
  std::mt19937 engine(14);
  for (int round = 0; round < (testing::slow() ? 10000 : 1000); ++round) {
    const LevelCodes levels = drawn_levels(engine), with_signs = signed_bytes(levels);
    const std::size_t terms = 1 + engine() % (engine() % 8 == 0 ? 700 : 200), rows = 1 + engine() % 70;
    const std::size_t block = std::min(terms, engine() % 3 == 0 ? terms : 4 * (1 + engine() % 40));
    const std::size_t panels = 1 + engine() % 2;
    CAPTURE(levels.bits);
    CAPTURE(terms);
    CAPTURE(block);
    CAPTURE(rows);
    const Drawn drawn[2] = {{engine, rows, terms, block, levels.least},
                            {engine, 1, terms, block, levels.least}};
    DrawnWeights weights[2] = {{engine, levels.bits, terms}, {engine, levels.bits, terms}};
    std::vector<std::int32_t> origins[2];
    TileBlocks blocks[2];
    std::vector<float> expected[2];
    for (std::size_t j = 0; j < panels; ++j) {
      expected[j].assign(rows * kRows, 0.0F);
      add_panel_ref(drawn[0].x,
                    {.bytes = weights[j].panel(levels, 0, terms), .widest = 255, .blocks = drawn[j].blocks},
                    expected[j].data(), kRows);
      blocks[j] = drawn[j].blocks;
      blocks[j].least = with_signs.least;
      origins[j] = drawn[j].origins;
      for (std::int32_t& origin : origins[j]) origin += with_signs.least - levels.least;
      if (blocks[j].origins) blocks[j].origins = origins[j].data();
    }
    const ChunkedRows x(drawn[0].x, block, 2);
    const auto check = [&](AddSquares add) {
      const std::vector<float> made = squares_of(engine, add, x, with_signs, blocks, weights, panels);
      for (std::size_t j = 0; j < panels; ++j) {
        for (std::size_t r = 0; r < rows; ++r) {
          const float* const row = &made[(r / kSide * 2 + j) * kSquare + r % kSide * kSide];
          REQUIRE(std::equal(row, row + kRows, &expected[j][r * kRows]));
        }
      }
    };
    check(emulated);
    if (by_amx) check(by_amx);
  }
  if (!by_amx) testing::skip("this processor has no AMX, or the system does not allow it");
}
#endif

}  // namespace
}  // namespace crumb::runtime
