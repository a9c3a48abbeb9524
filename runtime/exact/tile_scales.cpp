#include "runtime/exact/tile_scales.h"

#include <algorithm>
#include <vector>

#include "formats/number/tiles.h"

namespace crumb::runtime::exact {
namespace {

/// Calls decode(block, out) for the blocks of each row and writes what it gives side by side.
template <class Decode>
void side_by_side(const EncodedLayout& layout, std::uint64_t first, std::size_t rows, const Decode& decode,
                  float* out) {
  thread_local std::vector<float> of_row;
  const std::size_t blocks = layout.blocks_per_row;
  of_row.resize(blocks);
  for (std::size_t i = 0; i < kTileRows; ++i) {
    if (i < rows) decode(layout.first_block(first + i), std::span<float>(of_row));
    for (std::size_t b = 0; b < blocks; ++b) out[b * kTileRows + i] = of_row[b];
  }
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
  side_by_side(
      layout, first, rows, [&](std::uint64_t block, std::span<float> out) { decoder.scales(block, out); },
      scales);
  if (!zeros) return;
  side_by_side(
      layout, first, rows,
      [&](std::uint64_t block, std::span<float> out) { decoder.zero_points(block, out); }, zeros);
}

}  // namespace crumb::runtime::exact
