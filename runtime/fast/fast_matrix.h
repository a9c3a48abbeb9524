// Products of float rows with a packed matrix, by the promise `fast`: each row of x becomes bytes, products
// are sums of integers, and the weights stay packed.
//
// A row x has the scale s = max|x| / 127 and codes q = round(x / s). With w = level * scale of its block,
// levels being small integers, y = s * the sum over blocks of scale * the sum over the block of q * level;
// the inner sum is exact.
//
// The bound: |y - the sum of x * w| <= s / 2 * sum|w| + (blocks + 4) * 2^-23 * 127.5 * s * sum|w|. The first
// term comes from rounding x, the second from the float32 sums over blocks. Results have the same bits on
// every processor and for any number of threads and rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "quant/quantized_tensor.h"
#include "runtime/exact/products.h"
#include "runtime/fast/byte_rows.h"
#include "runtime/fast/level_codes.h"
#include "runtime/fast/row_sums.h"
#include "runtime/fast/square_sums.h"
#include "runtime/fast/tile_sums.h"

namespace crumb::runtime {

class FastMatrix {
 public:
  /// Returns null unless every value is a level of level_codes.h times its block's scale, and blocks are
  /// multiples of four terms of a row, of at most 65,536. So it is null for float zero points, minima, most
  /// codebooks, wide floats and blocks of other sizes. The result shares the tensor. `squares` multiplies
  /// where there are many rows of x; if it is null, panels do.
  static std::shared_ptr<const FastMatrix> of(const std::shared_ptr<const QuantizedTensor>& tensor,
                                              AddSquares squares = squares_by_amx());

  /// y = x * w^T; `products` need not set w. Returns false and does nothing where bytes cannot say a row of
  /// x: the row holds infinities or NaN, or its largest magnitude is below 2^-100 but not zero.
  bool multiply(const exact::Products& products, int threads) const;

 private:
  FastMatrix(std::shared_ptr<const QuantizedTensor> tensor, const LevelCodes& levels, AddSquares squares);
  struct Sixteen;
  /// Takes a few rows of x, and whole rows of weights in their stored order.
  void multiply_rows(const exact::Products& products, const ByteRows& x, int threads) const;
  /// Takes a few rows of x, and tiles.
  void multiply_tiles(const exact::Products& products, const ByteRows& x, int threads) const;
  /// Takes any number of rows of x: weights are decoded once for many of them.
  void multiply_panels(const exact::Products& products, const ByteRows& x, int threads) const;
  /// The same by squares_.
  void multiply_squares(const exact::Products& products, const ByteRows& x, int threads) const;
  struct Squares;
  void add_parts(const ChunkedRows& x, std::size_t first, std::size_t count, std::size_t tile,
                 std::size_t tiles, Squares& memory) const;

  TileBlocks blocks_of(const LevelCodes& levels, std::size_t first, std::size_t rows, Sixteen& memory) const;
  void decode(const LevelCodes& levels, std::size_t first, std::size_t rows, std::size_t begin,
              std::size_t end, Sixteen& memory) const;
  bool takes_rows() const;
  std::size_t block() const;
  /// Columns of weights that are decoded together: whole blocks, and whole tiles.
  std::size_t part() const;
  /// The end of the part that begins with column `begin`, for multiply_squares(): parts may cut blocks.
  std::size_t end_of_part(std::size_t begin) const;

  std::shared_ptr<const QuantizedTensor> tensor_;
  RowDecoder decoder_;
  LevelCodes levels_, signed_levels_;
  AddSquares squares_;
  bool has_zeros_ = false;
};

}  // namespace crumb::runtime
