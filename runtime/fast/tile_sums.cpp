#include "runtime/fast/tile_sums.h"

#include <algorithm>

#include "base/processor.h"

namespace crumb::runtime {
namespace {

constexpr std::size_t kPanelTile = kTileRows * kTileCols;  // bytes

/// Adds what one block of one row makes; above(k) is the byte of term k.
template <class Above>
void add_block(const ByteTerms& x, const TileBlocks& w, std::size_t r, std::size_t i, std::size_t b,
               const Above& above, float& made) {
  const std::int8_t* const q = x.q + r * x.stride;
  std::int32_t sum = 0;
  for (std::size_t k = b * w.block; k < std::min(x.terms, (b + 1) * w.block); ++k) sum += q[k] * above(k);
  const std::int32_t origin = w.origins ? w.origins[b * kTileRows + i] : w.least;
  sum += origin * x.sums[r * x.sums_stride + b];
  const float weighted = static_cast<float>(sum) * w.scales[b * kTileRows + i];
  made += weighted;
}

}  // namespace

void sum_tiles_ref(const ByteTerms& x, const LevelTiles& w, float* made) {
  const int bits = w.levels->bits;
  for (std::size_t r = 0; r < x.rows; ++r) {
    for (std::size_t i = 0; i < kTileRows; ++i) {
      const auto above = [&](std::size_t k) {
        return w.levels
            ->above[tile_code_ref(w.codes + k / kTileCols * tile_bytes(bits), bits, i, k % kTileCols)];
      };
      made[r * kTileRows + i] = 0;
      for (std::size_t b = 0; b * w.blocks.block < x.terms; ++b)
        add_block(x, w.blocks, r, i, b, above, made[r * kTileRows + i]);
    }
  }
}

void add_panel_ref(const ByteTerms& x, const LevelPanel& w, float* made, std::size_t made_stride) {
  for (std::size_t r = 0; r < x.rows; ++r) {
    for (std::size_t i = 0; i < kTileRows; ++i) {
      const auto above = [&](std::size_t k) { return w.bytes[k / 4 * kTileLine + 4 * i + k % 4]; };
      for (std::size_t b = 0; b * w.blocks.block < x.terms; ++b)
        add_block(x, w.blocks, r, i, b, above, made[r * made_stride + i]);
    }
  }
}

void tiles_to_panel_ref(const LevelCodes& levels, const std::uint8_t* codes, std::size_t tiles,
                        std::uint8_t* panel) {
  for (std::size_t t = 0; t < tiles; ++t) {
    std::uint8_t* const to = panel + t * kPanelTile;
    unpack_tile(codes + t * tile_bytes(levels.bits), levels.bits, to);
    for (std::size_t i = 0; i < kPanelTile; ++i) to[i] = levels.above[to[i]];
  }
}

bool takes_tiles(const LevelCodes& levels, std::size_t block, std::size_t terms) {
  const bool are_whole =
      block % kTileCols == 0 || block >= terms || (block == kTileCols / 2 && levels.bits == 4);
  return may_use(Isa::kAvx2) && are_whole && (levels.flip || levels.bits <= 6);
}

void sum_tiles(const ByteTerms& x, const LevelTiles& w, float* made) {
  if (may_use(Isa::kVnni)) return sum_tiles_vnni(x, w, made);
  sum_tiles_avx2(x, w, made);
}

void add_panel(const ByteTerms& x, const LevelPanel& w, float* made, std::size_t made_stride) {
  if (may_use(Isa::kVnni)) return add_panel_vnni(x, w, made, made_stride);
  if (may_use(Isa::kAvx2)) return add_panel_avx2(x, w, made, made_stride);
  add_panel_ref(x, w, made, made_stride);
}

void tiles_to_panel(const LevelCodes& levels, const std::uint8_t* codes, std::size_t tiles,
                    std::uint8_t* panel) {
  const bool is_wide_table = !levels.flip && levels.bits > 6;
  if (may_use(Isa::kVnni) && !is_wide_table) return tiles_to_panel_vnni(levels, codes, tiles, panel);
  if (may_use(Isa::kAvx2) && !is_wide_table) return tiles_to_panel_avx2(levels, codes, tiles, panel);
  tiles_to_panel_ref(levels, codes, tiles, panel);
}

}  // namespace crumb::runtime
