// Tiles against the formula of docs/crumb_file.md, written here once more from the page: bit by bit.
#include "formats/number/tiles.h"

#include <random>
#include <vector>

#include "formats/number/encoding.h"
#include "tests/support/testing.h"

namespace crumb {
namespace {

/// Where bit `bit` of the code in a row and a column lies: the byte of the tile, and the bit in it.
struct Place {
  uint64_t byte;
  int bit;
};
Place place_of(int bits, uint64_t r, uint64_t column, int bit) {
  static constexpr int kWidths[9][3] = {{}, {1}, {2}, {2, 1}, {4}, {4, 1}, {4, 2}, {4, 2, 1}, {8}};
  uint64_t begin = 0;
  for (const int w : kWidths[bits]) {
    REQUIRE(w > 0);
    if (bit < w) {
      const auto width = static_cast<uint64_t>(w);
      const uint64_t in_line = 32 / width, l = column / in_line, p = column % in_line / 4, c = column % 4;
      return {begin + 64 * l + 4 * r + c, static_cast<int>(width * p) + bit};
    }
    bit -= w;
    begin += 64 * static_cast<uint64_t>(w);
  }
  return {};
}

TEST_CASE("tiles: every bit of every code has its place, and no two share one") {
  for (int bits = 1; bits <= 8; ++bits) {
    CAPTURE(bits);
    std::vector<int> used(tile_bytes(bits) * 8);
    for (uint64_t r = 0; r < kTileRows; ++r) {
      for (uint64_t c = 0; c < kTileCols; ++c) {
        for (int bit = 0; bit < bits; ++bit) {
          const Place place = place_of(bits, r, c, bit);
          ++used.at(place.byte * 8 + static_cast<uint64_t>(place.bit));
          std::array<uint8_t, kTileRows * kTileCols> codes{};
          codes[r * kTileCols + c] = static_cast<uint8_t>(1 << bit);
          std::vector<uint8_t> tile(tile_bytes(bits), 0xFF), expected(tile_bytes(bits));
          pack_tile(codes, bits, tile.data());
          expected[place.byte] = static_cast<uint8_t>(1 << place.bit);
          REQUIRE(tile == expected);
        }
      }
    }
    CHECK(std::ranges::count(used, 1) == std::ssize(used));
  }
}

TEST_CASE("tiles: random codes come back, from any bits") {
  std::mt19937 engine(1);
  for (int round = 0; round < 2000; ++round) {
    const int bits = 1 + round % 8;
    std::array<uint8_t, kTileRows * kTileCols> codes;
    for (uint8_t& code : codes) code = static_cast<uint8_t>(engine() & ((1U << bits) - 1));
    std::vector<uint8_t> tile(tile_bytes(bits));
    pack_tile(codes, bits, tile.data());
    std::array<uint8_t, kTileRows * kTileCols> vectors;
    unpack_tile(tile.data(), bits, vectors.data());
    for (uint64_t r = 0; r < kTileRows; ++r) {
      std::array<uint8_t, kTileCols> row;
      unpack_tile_row(tile.data(), bits, r, row);
      for (uint64_t c = 0; c < kTileCols; ++c) {
        REQUIRE(row[c] == codes[r * kTileCols + c]);
        REQUIRE(vectors[c / 4 * 64 + 4 * r + c % 4] == row[c]);
        REQUIRE(tile_code_ref(tile.data(), bits, r, c) == row[c]);
      }
    }
  }
}

TEST_CASE("tiles: slots are as many as rows of tiles need, each block has one, and finds back") {
  for (const uint64_t rows : {1, 2, 15, 16, 17, 31, 32, 33, 100}) {
    for (const uint64_t cols : {1, 7, 31, 32, 33, 64, 100}) {
      for (const uint64_t block_rows : {uint64_t{1}, uint64_t{2}, rows}) {
        for (const uint64_t block_cols : {uint64_t{1}, uint64_t{8}, cols}) {
          const Encoding encoding{.number = find_number_format("int4"),
                                  .zero = ZeroPoint::kInteger,
                                  .block_rows = block_rows,
                                  .block_cols = block_cols,
                                  .codes = CodeLayout::kTiles};
          const uint64_t shape[] = {rows, cols};
          const EncodedLayout layout = encoded_layout(encoding, shape).take();
          const uint64_t across = (cols + block_cols - 1) / block_cols;
          CHECK(layout.codes_bytes == (rows + 15) / 16 * ((cols + 31) / 32) * 64 * 4);
          CHECK(layout.slots == (block_rows == 1 ? (rows + 15) / 16 * 16 * across
                                                 : (rows + block_rows - 1) / block_rows * across));
          CHECK(layout.scales_bytes == layout.slots * 4);
          CHECK(layout.zeros_bytes == (layout.slots + 1) / 2);
          std::vector<int> used(layout.slots);
          for (uint64_t block = 0; block < layout.blocks(); ++block) {
            ++used.at(layout.slot(block));
            CHECK(layout.block_of(layout.slot(block)) == block);
          }
          CHECK(std::ranges::count(used, 1) == static_cast<std::ptrdiff_t>(layout.blocks()));
          for (uint64_t slot = 0; slot < layout.slots; ++slot)
            CHECK(layout.block_of(slot).has_value() == (used[slot] == 1));
        }
      }
    }
  }
}

}  // namespace
}  // namespace crumb
