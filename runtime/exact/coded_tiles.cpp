#include "runtime/exact/coded_tiles.h"

#include <vector>

#include "base/processor.h"
#include "formats/number/tiles.h"
#include "runtime/exact/term_products.h"

namespace crumb::runtime::exact {
namespace {

/// The value of output i, of row `row` of tiles, and term k.
float tile_value(const CodedTiles& w, std::size_t terms, std::size_t row, std::size_t i, std::size_t k) {
  const std::size_t blocks = (terms + w.block - 1) / w.block;
  const std::size_t slot = (row * blocks + k / w.block) * kTileRows + i;
  const std::uint8_t* const tile = w.codes + row * w.row_bytes + k / kTileCols * tile_bytes(w.bits);
  return coded_value(w.values[tile_code_ref(tile, w.bits, i, k % kTileCols)], w.scales[slot],
                     w.zeros ? w.zeros[slot] : 0.0F, w.adds_zeros);
}

}  // namespace

void multiply_tiles(const Products& products, const CodedTiles& w) {
  if (may_use(Isa::kAvx512)) return multiply_tiles_avx512(products, w);
  multiply_tiles_avx2(products, w);
}

void multiply_tiles_ref(const Products& p, const CodedTiles& w) {
  std::vector<float> row(p.terms);
  for (std::size_t n = 0; n < p.columns; ++n) {
    for (std::size_t k = 0; k < p.terms; ++k)
      row[k] = tile_value(w, p.terms, n / kTileRows, n % kTileRows, k);
    for (std::size_t m = 0; m < p.rows; ++m)
      p.y[m * p.y_row + n * p.y_column] = dot_ref(p.x + m * p.x_stride, row.data(), p.terms);
  }
}

void decode_terms(const CodedTiles& w, std::size_t terms, float* to, std::size_t stride) {
  if (may_use(Isa::kAvx512)) return decode_terms_avx512(w, terms, to, stride);
  decode_terms_avx2(w, terms, to, stride);
}

void decode_terms_ref(const CodedTiles& w, std::size_t terms, float* to, std::size_t stride) {
  for (std::size_t k = 0; k < terms; ++k)
    for (std::size_t i = 0; i < kTileRows; ++i)
      to[panel_row(k, terms) * stride + i] = tile_value(w, terms, 0, i, k);
}

}  // namespace crumb::runtime::exact
