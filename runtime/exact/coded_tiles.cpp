#include "runtime/exact/coded_tiles.h"

#include <vector>

#include "base/processor.h"
#include "formats/number/tiles.h"

namespace crumb::runtime::exact {

void multiply_tiles(const Products& products, const CodedTiles& w) {
  if (may_use(Isa::kAvx512)) return multiply_tiles_avx512(products, w);
  multiply_tiles_avx2(products, w);
}

void multiply_tiles_ref(const Products& p, const CodedTiles& w) {
  std::vector<float> row(p.terms);
  const std::size_t blocks = (p.terms + w.block - 1) / w.block;
  for (std::size_t n = 0; n < p.columns; ++n) {
    const std::uint8_t* const tiles = w.codes + n / kTileRows * w.row_bytes;
    for (std::size_t k = 0; k < p.terms; ++k) {
      const std::size_t slot = (n / kTileRows * blocks + k / w.block) * kTileRows + n % kTileRows;
      const float value = w.values[tile_code_ref(tiles + k / kTileCols * tile_bytes(w.bits), w.bits,
                                                 n % kTileRows, k % kTileCols)];
      const float zero = w.zeros ? w.zeros[slot] : 0.0F;
      row[k] = coded_value(value, w.scales[slot], zero, w.adds_zeros);
    }
    for (std::size_t m = 0; m < p.rows; ++m)
      p.y[m * p.y_row + n * p.y_column] = dot_ref(p.x + m * p.x_stride, row.data(), p.terms);
  }
}

}  // namespace crumb::runtime::exact
