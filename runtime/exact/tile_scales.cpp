#include "runtime/exact/tile_scales.h"

#include <span>
#include <vector>

#include "formats/number/tiles.h"
#include "runtime/exact/side_by_side.h"

namespace crumb::runtime::exact {
namespace {

/// Writes what decode(row, out) gives for the blocks of each row side by side, and where `all` is true what
/// one call gives for all rows at once.
template <class Decode>
void columns_of(std::size_t blocks, std::size_t rows, bool all, const Decode& decode, float* out) {
  thread_local std::vector<float> of_rows;
  of_rows.resize(rows * blocks);
  if (all) {
    decode(0, std::span(of_rows));
  } else {
    for (std::size_t i = 0; i < rows; ++i) decode(i, std::span(of_rows).subspan(i * blocks, blocks));
  }
  side_by_side(reinterpret_cast<const std::uint32_t*>(of_rows.data()), blocks, rows, blocks,
               reinterpret_cast<std::uint32_t*>(out));
}

}  // namespace

void scales_of_tile(const EncodedLayout& layout, const RowDecoder& decoder, std::uint64_t first,
                    std::size_t rows, float* scales, float* zeros) {
  const std::size_t count = layout.blocks_per_row * kTileRows;
  if (layout.slots_in_tiles && rows == kTileRows) {
    const std::uint64_t slot = layout.slot(layout.first_block(first));
    decoder.scales_of_slots(slot, {scales, count});
    if (zeros) decoder.zero_points_of_slots(slot, {zeros, count});
    return;
  }
  // Blocks of neighbouring rows are neighbours where each row has its own.
  const bool all = layout.block_height == 1 && !layout.slots_in_tiles;
  const auto block_of = [&](std::size_t row) { return layout.first_block(first + row); };
  columns_of(
      layout.blocks_per_row, rows, all,
      [&](std::size_t row, std::span<float> to) {
        all ? decoder.scales_of_slots(layout.slot(block_of(row)), to) : decoder.scales(block_of(row), to);
      },
      scales);
  if (!zeros) return;
  columns_of(
      layout.blocks_per_row, rows, all,
      [&](std::size_t row, std::span<float> to) {
        all ? decoder.zero_points_of_slots(layout.slot(block_of(row)), to)
            : decoder.zero_points(block_of(row), to);
      },
      zeros);
}

}  // namespace crumb::runtime::exact
