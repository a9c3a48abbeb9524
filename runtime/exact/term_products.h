// Products of float32 matrices as products.h has them, of an operand whose terms lie apart: x[k] is a run of
// positions. So lie the windows of a convolution, laid out or in the image itself. The bits are those of
// products.h: term k of an output of a convolution, in the order of its weights (input channels, then taps of
// the kernel; padding counts as zeros), is added to partial sum k mod 16.
//
// Vectors hold neighbouring positions. Partial sum i of a tile is finished before another begins (terms i, i
// + 16, i + 32, ...), so a tile is a block of registers as in any product of matrices, and sixteen of them
// are added up in the order of fold().
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "runtime/exact/products.h"

namespace crumb::runtime::exact {

inline constexpr std::size_t kTileOutputs = 6;  ///< of the largest tile

inline constexpr std::size_t kTermRoom = 15;  ///< floats that reading whole vectors takes beyond a run

/// The number of terms that come before term k when those of partial sum 0 come first, then those of 1, ...
constexpr std::size_t place_of_term(std::size_t k, std::size_t terms) {
  const std::size_t partial = k % kPartialSums, rest = terms % kPartialSums;
  return partial * (terms / kPartialSums) + (partial < rest ? partial : rest) + k / kPartialSums;
}

/// The order in which tiles make partial sums, so that those which fold() adds meet: 0 to 15 with their bits
/// reversed.
inline constexpr std::size_t kPartialOrder[kPartialSums] = {0, 8, 4, 12, 2, 10, 6, 14,
                                                            1, 9, 5, 13, 3, 11, 7, 15};

/// The number of terms that a tile reads before term k: where x lies in this order, it is read as it lies.
constexpr std::size_t reads_before_term(std::size_t k, std::size_t terms) {
  std::size_t before = k / kPartialSums;
  for (const std::size_t partial : kPartialOrder) {
    if (partial == k % kPartialSums) break;
    before += terms / kPartialSums + (partial < terms % kPartialSums ? 1 : 0);
  }
  return before;
}

/// The row of a panel of outputs, one row a term, that term k is in: terms of a partial sum follow each
/// other, and a row is free between partial sums, or those of terms k and k + 1 would often be a multiple of
/// 4096 bytes apart and share a few lines of the first-level cache.
constexpr std::size_t panel_row(std::size_t k, std::size_t terms) {
  return place_of_term(k, terms) + k % kPartialSums;
}
constexpr std::size_t panel_rows(std::size_t terms) { return terms + kPartialSums; }

/// Which terms a partial sum has. Those of partial sum i have the places [starts[i], starts[i + 1]), in the
/// order in which they are added.
struct PartialTerms {
  std::size_t starts[kPartialSums + 1] = {};
  std::size_t used = 0;                   ///< partial sums that have terms
  std::uint8_t order[kPartialSums] = {};  ///< which these are, in the order in which tiles make them
  std::uint8_t meet[kPartialSums] = {};   ///< behind each, so many sums that wait are added up to it
  bool is_usual = false;                  ///< term k is of partial sum k mod 16
  bool adds_zero = false;                 ///< +0 is among what is added up

  /// The usual ones, filled up with zeros.
  static PartialTerms usual(std::size_t terms);
  /// With so many terms in each partial sum. One that has none is +0; others are not filled up.
  static PartialTerms of(const std::size_t (&counts)[kPartialSums]);
};

/// What is computed of a result, r, before it is written; as the operators of those names do.
struct TermsThen {
  enum class What : std::uint8_t {
    kNothing,
    kClip,   ///< least where r < least, and most where what comes of it is > most
    kSlope,  ///< r times the slope of its output where r < 0: slopes[n * slopes_step]
  };
  What what = What::kNothing;
  float least = -std::numeric_limits<float>::infinity(), most = std::numeric_limits<float>::infinity();
  const float* slopes = nullptr;
  std::size_t slopes_step = 0;
};

/// y[n, l, p] = the sum over k of x[l, k, p] * w[n, k], and bias[n] added to that, and `then` of that; for n
/// < outputs, l < lines, p < positions, k < terms. x[l, k, p] is the float x[l * x_line + offset + p], where
/// offset is x_offsets[place_of_term(k, terms)], and y[n, l, p] is y[n * y_stride + l * y_line + p]. w_stride
/// counts floats from output to output. y overlaps nothing else. With `partial`, terms are divided as it
/// says, and both w and x_offsets have them in the order of their places.
struct TermProducts {
  std::size_t outputs = 0;
  std::size_t lines = 1;
  std::size_t positions = 0;
  std::size_t terms = 0;
  const float* x = nullptr;
  const std::size_t* x_offsets = nullptr;  ///< one a term
  std::size_t x_line = 0;
  bool x_has_room = false;  ///< kTermRoom floats behind the last position of x may be read
  std::size_t x_ahead = 0;  ///< floats so far behind those of a whole vector are fetched into caches; 0: none
  const float* w = nullptr;
  std::size_t w_stride = 0;
  const float* packed = nullptr;          ///< the same weights by pack_terms(), or null; null with `partial`
  const PartialTerms* partial = nullptr;  ///< null: the usual ones
  const float* bias = nullptr;            ///< null: none
  TermsThen then = {};
  float* y = nullptr;
  std::size_t y_stride = 0;
  std::size_t y_line = 0;
};

/// Writes outputs * terms weights in the order in which tiles read them, which pays where there are many of
/// both terms and positions.
void pack_terms(const float* w, std::size_t w_stride, std::size_t outputs, std::size_t terms, float* to);

/// By the definition; kept for ever.
void multiply_terms_ref(const TermProducts& products);

/// The fastest way that this processor has, on one thread.
void multiply_terms(const TermProducts& products);

/// AVX2 and FMA. Precondition: may_use(Isa::kAvx2).
void multiply_terms_avx2(const TermProducts& products);
/// AVX-512. Precondition: may_use(Isa::kAvx512).
void multiply_terms_avx512(const TermProducts& products);

}  // namespace crumb::runtime::exact
