// Sums of bytes of activations times levels of weights, of sixteen rows of weights at a time, for every block
// of terms, and what the scales of the blocks make of them.
//
// Weights come as bytes without a sign, `above` of level_codes.h, so that one instruction takes four terms of
// each row (vpdpbusd, or vpmaddubsw): with Q the sum of a block's q, the sum of q * level is that of q *
// above, plus Q * least. Integers are exact, so their order is free. Floats have one order, block after
// block: made += float(sum) * scale, both rounded to float32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/number/tiles.h"
#include "runtime/fast/level_codes.h"

namespace crumb::runtime {

/// A few rows of activations (byte_rows.h), whose bytes may be read up to a multiple of 32 terms.
struct ByteTerms {
  const std::int8_t* q = nullptr;
  std::size_t stride = 0;  ///< from row to row of q
  std::size_t rows = 0, terms = 0;
  const std::int32_t* sums = nullptr;  ///< [rows, sums_stride]: of each block
  std::size_t sums_stride = 0;
};

/// One of them.
inline ByteTerms one_row(ByteTerms x, std::size_t row) {
  x.q += row * x.stride;
  x.sums += row * x.sums_stride;
  x.rows = 1;
  return x;
}

/// What is known of the blocks of sixteen rows of weights.
struct TileBlocks {
  std::size_t block = 0;          ///< terms that share a scale; the last block may be shorter
  const float* scales = nullptr;  ///< [blocks, 16]
  /// [blocks, 16]: the level of above = 0, so the least level less the zero point's. Null where it is `least`
  /// everywhere.
  const std::int32_t* origins = nullptr;
  std::int32_t least = 0;
};

/// Sixteen rows of codes, as tiles of formats/number/tiles.h: one for each 32 terms.
struct LevelTiles {
  const std::uint8_t* codes = nullptr;
  const LevelCodes* levels = nullptr;
  TileBlocks blocks;
};

/// Sixteen rows of weights as bytes `above`: vectors of 64 bytes, four terms of each row in each.
struct LevelPanel {
  const std::uint8_t* bytes = nullptr;  ///< aligned to 64 bytes
  std::int32_t widest = 0;              ///< no byte is greater
  TileBlocks blocks;
};

/// Blocks of half a tile, which nvfp4 has.
inline bool are_halves(const ByteTerms& x, const TileBlocks& w) {
  return w.block == kTileCols / 2 && w.block < x.terms;
}

/// Rows of activations for which sum_tiles() is faster than decoding tiles to panels.
inline constexpr std::size_t kFewByteRows = 4;

/// Whether sum_tiles() takes them: blocks are multiples of 32 terms, of four bits 16, or one block is a row,
/// and the codes have no table of more than 64 levels.
bool takes_tiles(const LevelCodes& levels, std::size_t block, std::size_t terms);

/// made[r * 16 + i], of row i of the weights, is what its blocks make. Preconditions: takes_tiles; 1 <=
/// x.rows <= kFewByteRows; a block has at most 65,536 terms.
void sum_tiles(const ByteTerms& x, const LevelTiles& w, float* made);

/// Adds to made[r * made_stride + i] what the blocks make, of as many terms as x has: so a row can be taken
/// part by part, parts being whole blocks. Preconditions: blocks are multiples of four terms, or one block is
/// all terms.
void add_panel(const ByteTerms& x, const LevelPanel& w, float* made, std::size_t made_stride);

/// The bytes `above` of so many tiles, as a panel has them: 512 bytes a tile.
void tiles_to_panel(const LevelCodes& levels, const std::uint8_t* codes, std::size_t tiles,
                    std::uint8_t* panel);

/// By the definition; kept for ever.
void sum_tiles_ref(const ByteTerms& x, const LevelTiles& w, float* made);
void add_panel_ref(const ByteTerms& x, const LevelPanel& w, float* made, std::size_t made_stride);
void tiles_to_panel_ref(const LevelCodes& levels, const std::uint8_t* codes, std::size_t tiles,
                        std::uint8_t* panel);
/// Precondition: may_use(Isa::kAvx2).
void sum_tiles_avx2(const ByteTerms& x, const LevelTiles& w, float* made);
void add_panel_avx2(const ByteTerms& x, const LevelPanel& w, float* made, std::size_t made_stride);
void tiles_to_panel_avx2(const LevelCodes& levels, const std::uint8_t* codes, std::size_t tiles,
                         std::uint8_t* panel);
/// Precondition: may_use(Isa::kVnni).
void sum_tiles_vnni(const ByteTerms& x, const LevelTiles& w, float* made);
void add_panel_vnni(const ByteTerms& x, const LevelPanel& w, float* made, std::size_t made_stride);
void tiles_to_panel_vnni(const LevelCodes& levels, const std::uint8_t* codes, std::size_t tiles,
                         std::uint8_t* panel);

}  // namespace crumb::runtime
