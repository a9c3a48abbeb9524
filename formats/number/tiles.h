// Codes in tiles, as kernels read them: one vector load has four neighbouring codes of each of 16 rows.
//
// A tile has the codes of 16 rows x 32 columns in 64 * bits bytes. A code is cut into fields, from its least
// significant bit on: one of 8 bits, or one of 4 where bits is 4 to 7, then one of 2, then one of 1, as far
// as bits are left. A field of w bits takes w lines of 64 bytes, the fields one behind the other. In line l,
// byte 4 r + c has in its bits [w p, w p + w) the field of the code in row r, column l * 32 / w + 4 p + c.
// (docs/crumb_file.md, "Codes")
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace crumb {

inline constexpr uint64_t kTileRows = 16, kTileCols = 32, kTileLine = 64;

inline constexpr uint64_t tile_bytes(int bits) { return kTileLine * static_cast<uint64_t>(bits); }

/// The fields of a code: their widths, 0 behind the last.
constexpr std::array<int, 3> tile_fields(int bits) {
  std::array<int, 3> widths{};
  int count = 0;
  for (int width = 8; width > 0; width /= 2) {
    if (bits < width) continue;
    widths[static_cast<size_t>(count++)] = width;
    bits -= width;
  }
  return widths;
}

/// Packs 16 rows of 32 codes, row-major, each below 2^bits, into tile_bytes(bits) bytes.
void pack_tile(std::span<const uint8_t, kTileRows * kTileCols> codes, int bits, uint8_t* tile);

/// The codes of a tile, a byte each, as kernels multiply them: eight vectors of 64 bytes, of which vector g
/// has the code of row r, column 4 g + c in byte 4 r + c.
void unpack_tile(const uint8_t* tile, int bits, uint8_t* vectors);

/// The 32 codes of a row of a tile.
void unpack_tile_row(const uint8_t* tile, int bits, uint64_t row, std::span<uint8_t, kTileCols> codes);

/// Scalar twin: one code.
uint8_t tile_code_ref(const uint8_t* tile, int bits, uint64_t row, uint64_t col);

}  // namespace crumb
