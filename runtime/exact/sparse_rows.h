// Products by a matrix of which few elements are not 0, to the bits of exact/products.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/exact/products.h"

namespace crumb::runtime::exact {

/// One element that is not 0.
struct SparseElement {
  std::uint32_t term = 0;
  float value = 0;
};

class SparseRows {
 public:
  struct Placed {
    std::size_t row = 0, term = 0;
    float value = 0;
  };

  /// Of rows of `terms` elements. Preconditions: places lie in the matrix, each once; terms fit 32 bits.
  SparseRows(std::size_t rows, std::size_t terms, std::span<const Placed> elements);

  /// What multiply() of products.h gives for these rows as w. Columns, terms and w of the product are not looked at.
  void multiply(const Products& product, int threads) const;

  /// The row as it is with its zeros.
  void values(std::size_t row, std::span<float> to) const;

 private:
  std::span<const SparseElement> row(std::size_t i) const {
    return std::span(elements_).subspan(begins_[i], begins_[i + 1] - begins_[i]);
  }

  std::size_t terms_;
  std::vector<std::size_t> begins_;  ///< of each row, and the end
  std::vector<SparseElement> elements_;
};

/// Rows of x that one pass takes.
inline constexpr std::size_t kSparseLanes = 16;

/// y[lane * lane_stride] for `lanes` of them, from x[term * kSparseLanes + lane], or of one lane from x[term]. Sums are those of
/// products.h over finite x; terms ascend. One row's work, for any processor and with AVX2 and FMA.
void sparse_row_portable(std::span<const SparseElement> row, const float* x, std::size_t lanes, float* y,
                         std::size_t lane_stride);
void sparse_row_avx2(std::span<const SparseElement> row, const float* x, std::size_t lanes, float* y,
                     std::size_t lane_stride);

}  // namespace crumb::runtime::exact
