// The products of coded_products.h where codes lie in tiles (formats/number/tiles.h): a vector has the codes
// of sixteen outputs, each of whose partial sums is a lane of its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/exact/coded_products.h"
#include "runtime/exact/products.h"

namespace crumb::runtime::exact {

/// What takes Products::w's place: `columns` outputs, sixteen in each row of tiles.
struct CodedTiles {
  const std::uint8_t* codes = nullptr;  ///< of tile (0, 0)
  std::size_t row_bytes = 0;            ///< of a row of tiles
  int bits = 0;
  const float* values = nullptr;  ///< by code, 2^bits of them
  ByteValues bytes = {};          ///< byte_values(values), of eight bits
  /// Terms that share a scale: a multiple of 32, at least `terms`, or, of four bits without zeros, 16.
  std::size_t block = 0;
  const float* scales = nullptr;  ///< [rows of tiles, blocks in a row, 16]
  const float* zeros = nullptr;   ///< the same; null where all are 0
  bool adds_zeros = false;        ///< they are minima
};

/// products.y, on one thread. Preconditions: takes_codes, 1 <= products.rows <= kFewRows. What products says
/// of w does not count.
void multiply_tiles(const Products& products, const CodedTiles& w);

/// The values of one row of tiles, term by term as term_products.h takes them: that of term k and output i is
/// written to to[panel_row(k, terms) * stride + i], for all sixteen outputs. Preconditions: takes_codes; the
/// block's, for so many terms.
void decode_terms(const CodedTiles& w, std::size_t terms, float* to, std::size_t stride);

/// By the definition; kept for ever. They take codes of one to eight bits.
void multiply_tiles_ref(const Products& products, const CodedTiles& w);
void decode_terms_ref(const CodedTiles& w, std::size_t terms, float* to, std::size_t stride);

/// Precondition: may_use(Isa::kAvx2). Codes of one to four bits, and of eight.
void multiply_tiles_avx2(const Products& products, const CodedTiles& w);
void decode_terms_avx2(const CodedTiles& w, std::size_t terms, float* to, std::size_t stride);
/// Precondition: may_use(Isa::kAvx512). Codes of one to six bits, and of eight.
void multiply_tiles_avx512(const Products& products, const CodedTiles& w);
void decode_terms_avx512(const CodedTiles& w, std::size_t terms, float* to, std::size_t stride);

}  // namespace crumb::runtime::exact
