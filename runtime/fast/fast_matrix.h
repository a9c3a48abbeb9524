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

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "quant/quantized_tensor.h"
#include "runtime/exact/products.h"
#include "runtime/fast/row_sums.h"
#include "runtime/integer/byte_products.h"

namespace crumb::runtime {

class FastMatrix {
 public:
  /// Returns null unless every value is a 7-bit integer times a power of two times its block's scale, and
  /// blocks are multiples of four terms of a row. So it is null for float zero points, minima, codebooks,
  /// wide floats and blocks of other sizes. The result shares the tensor.
  static std::shared_ptr<const FastMatrix> of(const std::shared_ptr<const QuantizedTensor>& tensor);

  /// y = x * w^T; `products` need not set w. Returns false and does nothing where bytes cannot say a row of
  /// x: the row holds infinities or NaN, or its largest magnitude is below 2^-100 but not zero.
  bool multiply(const exact::Products& products, int threads) const;

 private:
  explicit FastMatrix(std::shared_ptr<const QuantizedTensor> tensor);
  struct Panel;
  struct ByteRows;
  bool to_bytes(const exact::Products& products, int threads, ByteRows& made) const;
  /// Takes whole rows of weights in their stored order; for few rows of x.
  void multiply_rows(const exact::Products& products, ByteRows& x, int threads) const;
  void scales_of_rows(std::size_t first, std::size_t count, std::span<float> scales) const;
  std::int32_t zero_level(std::uint64_t block) const {
    return static_cast<std::int32_t>(decoder_.zero_point(block) / unit_);
  }
  const std::int8_t* levels_of_row(std::size_t n, const std::uint8_t* row,
                                   std::vector<std::uint8_t>& codes) const;
  void multiply_panels(const exact::Products& products, const ByteRows& x, int threads) const;
  void decode(std::size_t tile, std::size_t place, Panel& panel) const;
  void multiply_panel(const std::uint8_t* x, std::size_t stride, std::size_t first, std::size_t rows,
                      std::size_t count, Panel& panel) const;
  /// The bytes of a panel's tile.
  std::size_t bytes_of_tile() const {
    return (decoder_.cols() + kTileCols - 1) / kTileCols * kTileCols * kTileRows;
  }

  std::shared_ptr<const QuantizedTensor> tensor_;
  RowDecoder decoder_;
  LevelTable levels_{};  ///< the level of each code, before zero points
  float unit_ = 1;       ///< the value of level 1, before scales
  bool has_zeros_ = false;
  integer::Way way_;
};

}  // namespace crumb::runtime
