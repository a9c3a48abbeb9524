// Products by a matrix with few elements that are not 0, with the bits of exact/products.h.
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

/// How a row is summed. Elements of one partial sum are neighbours, terms ascending, and partial sums without
/// elements are left out. Those stay +0, and adding +0 changes no number except -0, to +0: so where some are
/// left out, +0 is added at the end.
struct SparseRow {
  struct Fold {
    std::uint8_t to = 0, from = 0;  ///< partial sums, by their index in `sizes`
  };
  std::span<const SparseElement> elements;
  std::span<const std::uint32_t> sizes;  ///< elements of each partial sum that has any
  std::span<const Fold> folds;           ///< in order; afterwards partial sum 0 is the sum
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

  /// What multiply() of products.h gives with these rows as w. Columns, terms and w of the product are
  /// ignored.
  void multiply(const Products& product, int threads) const;

  /// The row as floats, with its zeros.
  void values(std::size_t row, std::span<float> to) const;

  std::size_t rows() const { return begins_.size() - 1; }
  SparseRow row(std::size_t i) const;

 private:
  /// Where each row begins, and where the last one ends.
  struct Begin {
    std::size_t element = 0, size = 0, fold = 0;
  };

  std::size_t terms_;
  std::vector<Begin> begins_;
  std::vector<SparseElement> elements_;
  std::vector<std::uint32_t> sizes_;
  std::vector<SparseRow::Fold> folds_;
};

/// Rows of x in one pass.
inline constexpr std::size_t kSparseLanes = 16;

/// y[lane * lane_stride] for `lanes` of them, from x[term * kSparseLanes + lane], or of one lane from
/// x[term]; sums over finite x. For any processor and with AVX2 and FMA.
void sparse_row_portable(const SparseRow& row, const float* x, std::size_t lanes, float* y,
                         std::size_t lane_stride);
void sparse_row_avx2(const SparseRow& row, const float* x, std::size_t lanes, float* y,
                     std::size_t lane_stride);

}  // namespace crumb::runtime::exact
