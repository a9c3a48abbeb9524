// rows_to_terms() with AVX2: squares of eight rows by eight terms are transposed in registers. The
// instruction set is named function by function, so that nothing inline of the standard library is compiled
// for it.
#include "runtime/exact/many_rows.h"
#include "runtime/exact/term_products.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define CRUMB_AVX2 __attribute__((target("avx2")))

namespace crumb::runtime::exact {
namespace {

constexpr std::size_t kSquareSide = 8;

#include "runtime/exact/transpose_avx2.inc"

/// Term i of eight rows goes to next[i].
CRUMB_AVX2 inline void transpose_square(const float* rows, std::size_t row_stride, float* const* next) {
  __m256i r[kSquareSide];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kSquareSide; ++i)
    r[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows + i * row_stride));
  transpose_eight(r);
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kSquareSide; ++i)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(next[i]), r[i]);
}

/// Eight rows, of whole squares of terms; returns how many terms these are.
CRUMB_AVX2 std::size_t transpose_rows(const float* rows, std::size_t row_stride, std::size_t terms, float* to,
                                      std::size_t stride) {
  float* next[kPartialSums];
  for (std::size_t i = 0; i < kPartialSums; ++i) next[i] = to + panel_row(i, terms) * stride;
  std::size_t k = 0;
  for (; k + kPartialSums <= terms; k += kPartialSums) {
    transpose_square(rows + k, row_stride, next);
    transpose_square(rows + k + kSquareSide, row_stride, next + kSquareSide);
    for (float*& at : next) at += stride;
  }
  return k;
}

}  // namespace

void rows_to_terms_avx2(const float* rows, std::size_t row_stride, std::size_t count, std::size_t terms,
                        float* to, std::size_t stride) {
  std::size_t i = 0;
  for (; i + kSquareSide <= count; i += kSquareSide) {
    const float* const eight = rows + i * row_stride;
    for (std::size_t k = transpose_rows(eight, row_stride, terms, to + i, stride); k < terms; ++k)
      for (std::size_t r = 0; r < kSquareSide; ++r)
        to[panel_row(k, terms) * stride + i + r] = eight[r * row_stride + k];
  }
  if (i < count) rows_to_terms_ref(rows + i * row_stride, row_stride, count - i, terms, to + i, stride);
}

}  // namespace crumb::runtime::exact

#else

namespace crumb::runtime::exact {
void rows_to_terms_avx2(const float* rows, std::size_t row_stride, std::size_t count, std::size_t terms,
                        float* to, std::size_t stride) {
  rows_to_terms_ref(rows, row_stride, count, terms, to, stride);
}
}  // namespace crumb::runtime::exact

#endif
