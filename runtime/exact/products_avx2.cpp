// multiply() with AVX2 and FMA: sixteen partial sums are two vectors. The instruction set is named function by function,
// so that nothing inline of the standard library is compiled for it.
#include "runtime/exact/products.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define CRUMB_AVX2 __attribute__((target("avx2,fma")))

namespace crumb::runtime::exact {
namespace {

constexpr std::size_t kLanes = 8, kTileX = 2,
                      kTileW = 3;  // twelve sums, three of w and one of x: all 16 registers

/// Lanes below `count` are on.
CRUMB_AVX2 inline __m256i mask_of(std::size_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/// Of two vectors the halves of what is left of each sum, added; in steps from eight parts to one.
CRUMB_AVX2 inline __m256 halves(__m256 a, __m256 b) {
  return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}
CRUMB_AVX2 inline __m256 quarters(__m256 a, __m256 b) {
  return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xEE));
}
CRUMB_AVX2 inline __m256 last(__m256 a, __m256 b) {
  return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xDD));
}

/// Element 4 i + j is the sum of the parts of s[i][j], in the order of fold(); of j = 3 it means nothing.
CRUMB_AVX2 inline __m256 folded(const __m256 (&s)[kTileX][kTileW][2]) {
  __m256 four[kTileW];  // lane i: four parts of s[i][j]
  for (std::size_t j = 0; j < kTileW; ++j)
    four[j] = halves(_mm256_add_ps(s[0][j][0], s[0][j][1]), _mm256_add_ps(s[1][j][0], s[1][j][1]));
  return last(quarters(four[0], four[1]), quarters(four[2], four[2]));
}

template <std::size_t M, std::size_t N>
CRUMB_AVX2 void tile(const Products& p, std::size_t m, std::size_t n) {
  __m256 sums[kTileX][kTileW][2];
  const float* x = p.x + m * p.x_stride;
  const float* w = p.w + n * p.w_stride;
  for (auto& row : sums) {
    for (auto& sum : row) sum[0] = sum[1] = _mm256_setzero_ps();
  }
  const std::size_t whole = p.terms / kPartialSums * kPartialSums;
  for (std::size_t k = 0; k < whole; k += kPartialSums) {
    for (std::size_t half = 0; half < 2; ++half) {
      __m256 rows[N];
      for (std::size_t j = 0; j < N; ++j) {
        rows[j] = _mm256_loadu_ps(w + j * p.w_stride + k + half * kLanes);
        asm("" : "+x"(rows[j]));  // or GCC loads it again for every row of x
      }
      for (std::size_t i = 0; i < M; ++i) {
        const __m256 values = _mm256_loadu_ps(x + i * p.x_stride + k + half * kLanes);
        for (std::size_t j = 0; j < N; ++j)
          sums[i][j][half] = _mm256_fmadd_ps(values, rows[j], sums[i][j][half]);
      }
    }
  }
  if (whole < p.terms) {  // zeros fill up
    for (std::size_t half = 0; half < 2; ++half) {
      const std::size_t begin = whole + half * kLanes, left = p.terms > begin ? p.terms - begin : 0;
      const __m256i mask = mask_of(left < kLanes ? left : kLanes);
      for (std::size_t i = 0; i < M; ++i) {
        const __m256 values = _mm256_maskload_ps(x + i * p.x_stride + begin, mask);
        for (std::size_t j = 0; j < N; ++j) {
          const __m256 row = _mm256_maskload_ps(w + j * p.w_stride + begin, mask);
          sums[i][j][half] = _mm256_fmadd_ps(values, row, sums[i][j][half]);
        }
      }
    }
  }
  alignas(32) float made[kTileX][4];
  _mm256_store_ps(&made[0][0], folded(sums));
  for (std::size_t i = 0; i < M; ++i) {
    for (std::size_t j = 0; j < N; ++j) p.y[(m + i) * p.y_row + (n + j) * p.y_column] = made[i][j];
  }
}

template <std::size_t M>
CRUMB_AVX2 void rows(const Products& p, std::size_t m, std::size_t begin, std::size_t end) {
  std::size_t n = begin;
  for (; n + kTileW <= end; n += kTileW) tile<M, kTileW>(p, m, n);
  for (; n < end; ++n) tile<M, 1>(p, m, n);
}

}  // namespace

void multiply_avx2(const Products& p) {
  constexpr std::size_t kCached =
      std::size_t{256} * 1024 / sizeof(float);  // rows of w that stay in the second cache
  const std::size_t fit = kCached / (p.terms + 1), step = fit < kTileW ? kTileW : fit / kTileW * kTileW;
  for (std::size_t n = 0; n < p.columns; n += step) {
    const std::size_t end = p.columns - n < step ? p.columns : n + step;
    std::size_t m = 0;
    for (; m + kTileX <= p.rows; m += kTileX) rows<kTileX>(p, m, n, end);
    for (; m < p.rows; ++m) rows<1>(p, m, n, end);
  }
}

}  // namespace crumb::runtime::exact

#else

namespace crumb::runtime::exact {
void multiply_avx2(const Products& products) { multiply_ref(products); }
}  // namespace crumb::runtime::exact

#endif
