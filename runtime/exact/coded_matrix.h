// A matrix in codes as products of a few float rows take it: the kernels of coded_products.h and
// coded_tiles.h, and the scales that they want.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "quant/quantized_tensor.h"
#include "runtime/exact/coded_products.h"
#include "runtime/exact/coded_tiles.h"
#include "runtime/exact/products.h"

namespace crumb::runtime::exact {

class CodedMatrix {
 public:
  /// Null where no kernel of this processor takes its codes: wide floats, scales for other runs of terms than
  /// whole sixteens, palettes of a stack. It shares the tensor.
  static std::shared_ptr<const CodedMatrix> of(const std::shared_ptr<const QuantizedTensor>& tensor);

  /// Whether it is faster than decoding the matrix row by row: of few rows of x, or in tiles.
  bool is_for(std::size_t rows) const;

  /// y = x * w^T, w being rows [first, first + products.columns) of the tensor, of a stack those of one of
  /// its matrices; what products says of w does not count. The bits are those of multiply() on the decoded
  /// values. Throws as QuantizedTensor::check_codes() does. Precondition: is_for(products.rows).
  void multiply(const Products& products, std::size_t first, int threads) const;

 private:
  explicit CodedMatrix(std::shared_ptr<const QuantizedTensor> tensor);
  void multiply_rows(const Products& products, std::size_t first, int threads) const;
  void multiply_tiles(const Products& products, std::size_t first, int threads) const;
  /// Takes many rows of x: tiles are decoded once for all of them, or for some hundreds.
  void multiply_many(const Products& products, std::size_t first, int threads) const;
  /// What all rows of tiles share: the codes, scales and zeros are null.
  CodedTiles tiles() const;
  /// Sets w's codes, scales and zeros to those of the row of tiles of outputs [first, first + count). Scales
  /// and zeros are written to `memory`, of 2 * 16 * blocks_per_row floats.
  void set_row(CodedTiles& w, std::size_t first, std::size_t count, float* memory) const;

  std::shared_ptr<const QuantizedTensor> tensor_;
  RowDecoder decoder_;
  ByteValues bytes_;  ///< of codes of eight bits
};

}  // namespace crumb::runtime::exact
