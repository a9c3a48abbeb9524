// multiply() with AVX2 and FMA: sixteen partial sums are two vectors. The instruction set is named function
// by function, so that nothing inline of the standard library is compiled for it.
#include "runtime/exact/products.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define CRUMB_AVX2 __attribute__((target("avx2,fma")))

namespace crumb::runtime::exact {
namespace {

// Twelve sums, three of w and one of x: all 16 registers. They are halves of the partial sums, one after the
// other: seven reads for twelve products leave time for reads across two cache lines.
constexpr std::size_t kLanes = 8, kTileX = 4, kTileW = 3;
constexpr std::size_t kTerms = 1024;  // whose x and w stay in the first cache between the halves

/// Lanes below `count` are on.
CRUMB_AVX2 inline __m256i mask_of(std::size_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/// Adds the halves of what is left of each sum, of two vectors; step by step from eight parts to one.
CRUMB_AVX2 inline __m256 halves(__m256 a, __m256 b) {
  return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}
CRUMB_AVX2 inline __m256 quarters(__m256 a, __m256 b) {
  return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xEE));
}
CRUMB_AVX2 inline __m256 last(__m256 a, __m256 b) {
  return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xDD));
}

/// Element 4 i + j is the sum of the parts of s[i][j], of two rows, in the order of fold(). Elements with j =
/// 3 are unused.
CRUMB_AVX2 inline __m256 folded(const __m256 (*s)[kTileW]) {
  __m256 four[kTileW];  // lane i: four parts of s[i][j]
  for (std::size_t j = 0; j < kTileW; ++j) four[j] = halves(s[0][j], s[1][j]);
  return last(quarters(four[0], four[1]), quarters(four[2], four[2]));
}

/// Terms from `begin` to `end`, a multiple of sixteen, of H halves of the partial sums.
template <std::size_t M, std::size_t N, std::size_t H>
CRUMB_AVX2 inline void add(const Products& p, const float* x, const float* w, std::size_t begin,
                           std::size_t end, __m256 (*to)[M][N]) {
  __m256 sums[H][M][N];
  for (std::size_t half = 0; half < H; ++half)
    for (std::size_t i = 0; i < M; ++i)
      for (std::size_t j = 0; j < N; ++j) sums[half][i][j] = to[half][i][j];
  for (std::size_t k = begin; k < end; k += kPartialSums) {
    for (std::size_t half = 0; half < H; ++half) {
      __m256 rows[N];
      for (std::size_t j = 0; j < N; ++j) {
        rows[j] = _mm256_loadu_ps(w + j * p.w_stride + k + half * kLanes);
        asm("" : "+x"(rows[j]));  // or GCC loads it again for every row of x
      }
      for (std::size_t i = 0; i < M; ++i) {
        const __m256 values = _mm256_loadu_ps(x + i * p.x_stride + k + half * kLanes);
        for (std::size_t j = 0; j < N; ++j)
          sums[half][i][j] = _mm256_fmadd_ps(values, rows[j], sums[half][i][j]);
      }
    }
  }
  for (std::size_t half = 0; half < H; ++half)
    for (std::size_t i = 0; i < M; ++i)
      for (std::size_t j = 0; j < N; ++j) to[half][i][j] = sums[half][i][j];
}

/// The `count` terms that are left, less than sixteen: zeros fill up.
template <std::size_t M, std::size_t N>
CRUMB_AVX2 inline void add_last(const Products& p, const float* x, const float* w, std::size_t count,
                                __m256 (&sums)[M][N]) {
  const __m256i mask = mask_of(count < kLanes ? count : kLanes);
  for (std::size_t i = 0; i < M; ++i) {
    const __m256 values = _mm256_maskload_ps(x + i * p.x_stride, mask);
    for (std::size_t j = 0; j < N; ++j)
      sums[i][j] = _mm256_fmadd_ps(values, _mm256_maskload_ps(w + j * p.w_stride, mask), sums[i][j]);
  }
}

template <std::size_t M, std::size_t N>
CRUMB_AVX2 void tile(const Products& p, std::size_t m, std::size_t n) {
  const float* x = p.x + m * p.x_stride;
  const float* w = p.w + n * p.w_stride;
  __m256 sums[2][M][N];
  for (auto& half : sums)
    for (auto& row : half)
      for (__m256& sum : row) sum = _mm256_setzero_ps();
  const std::size_t whole = p.terms / kPartialSums * kPartialSums, left = p.terms - whole;
  if constexpr (M <= 2) {  // both halves' sums have room
    add<M, N, 2>(p, x, w, 0, whole, sums);
  } else {
    for (std::size_t begin = 0; begin < whole; begin += kTerms) {
      const std::size_t end = whole - begin < kTerms ? whole : begin + kTerms;
      add<M, N, 1>(p, x, w, begin, end, sums);
      add<M, N, 1>(p, x + kLanes, w + kLanes, begin, end, sums + 1);
    }
  }
  if (left > 0) {
    add_last<M, N>(p, x + whole, w + whole, left, sums[0]);
    add_last<M, N>(p, x + whole + kLanes, w + whole + kLanes, left > kLanes ? left - kLanes : 0, sums[1]);
  }
  __m256 both[kTileX][kTileW];
  for (std::size_t i = 0; i < kTileX; ++i)
    for (std::size_t j = 0; j < kTileW; ++j)
      both[i][j] = i < M && j < N ? _mm256_add_ps(sums[0][i][j], sums[1][i][j]) : _mm256_setzero_ps();
  alignas(32) float made[kTileX][4];
  for (std::size_t i = 0; i < M; i += 2) _mm256_store_ps(&made[i][0], folded(both + i));
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
    for (; m + 2 <= p.rows; m += 2) rows<2>(p, m, n, end);
    for (; m < p.rows; ++m) rows<1>(p, m, n, end);
  }
}

}  // namespace crumb::runtime::exact

#else

namespace crumb::runtime::exact {
void multiply_avx2(const Products& products) { multiply_ref(products); }
}  // namespace crumb::runtime::exact

#endif
