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

/// How a row is summed: elements of one partial sum lie side by side, terms ascending, and partial sums that
/// no element reaches are left out. They stay +0, which changes no other number than -0, to +0: where some
/// are left out, +0 is added in the end.
struct SparseRow {
  struct Fold {
    std::uint8_t to = 0, from = 0;  ///< partial sums, counted as they lie
  };
  std::span<const SparseElement> elements;
  std::span<const std::uint32_t> sizes;  ///< elements of each partial sum that is there
  std::span<const Fold> folds;           ///< in order; the sum is partial sum 0 then
};

class SparseRows {
 public:
  struct Placed {
    std::size_t row = 0, term = 0;
    float value = 0;
  };

  /// From rows of `terms` elements. Preconditions: indices are in the matrix, each once; the terms fit 32
  /// bits.
  SparseRows(std::size_t rows, std::size_t terms, std::vector<Placed> elements);

  /// What multiply() of products.h gives for these rows as w. Columns, terms and w of the product are not
  /// looked at.
  void multiply(const Products& product, int threads) const;

  /// The row as it is with its zeros.
  void values(std::size_t row, std::span<float> to) const;

  std::size_t rows() const { return begins_.size() - 1; }
  SparseRow row(std::size_t i) const;

 private:
  /// Of each row, and of what comes behind the last.
  struct Begin {
    std::size_t element = 0, size = 0, fold = 0;
  };

  std::size_t terms_;
  std::vector<Begin> begins_;
  std::vector<SparseElement> elements_;
  std::vector<std::uint32_t> sizes_;
  std::vector<SparseRow::Fold> folds_;
};

/// Rows of x that one pass takes.
inline constexpr std::size_t kSparseLanes = 16;

/// y[lane * lane_stride] for `lanes` of them, from x[term * kSparseLanes + lane], or of one lane from
/// x[term]; sums over finite x. For any processor and with AVX2 and FMA.
void sparse_row_portable(const SparseRow& row, const float* x, std::size_t lanes, float* y,
                         std::size_t lane_stride);
void sparse_row_avx2(const SparseRow& row, const float* x, std::size_t lanes, float* y,
                     std::size_t lane_stride);

}  // namespace crumb::runtime::exact
