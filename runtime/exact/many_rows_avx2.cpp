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

/// Term i of eight rows goes to next[i].
CRUMB_AVX2 inline void transpose_square(const float* rows, std::size_t row_stride, float* const* next) {
  __m256 r[kSquareSide], pairs[kSquareSide], fours[kSquareSide];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kSquareSide; ++i) r[i] = _mm256_loadu_ps(rows + i * row_stride);
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kSquareSide; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 2
  for (std::size_t i = 0; i < kSquareSide; i += 4) {
    fours[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    fours[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xEE);
    fours[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
    fours[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xEE);
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) {
    _mm256_storeu_ps(next[i], _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20));
    _mm256_storeu_ps(next[i + 4], _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31));
  }
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
