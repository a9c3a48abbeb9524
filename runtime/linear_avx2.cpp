// float_product with eight lanes and fused multiply-add. The instruction set is named function by function,
// so that nothing inline of the standard library is compiled for it.
#include "runtime/linear_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define CRUMB_AVX2 __attribute__((target("avx2,fma")))

namespace crumb::runtime {
namespace {

constexpr size_t kLanes = 8;
constexpr size_t kTileX = 4;
constexpr size_t kTileW = 3;  // 12 sums, 3 of w and 1 of x: all 16 registers

/// Lanes below `count` are on.
CRUMB_AVX2 inline __m256i mask_of(size_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/// The four sums of lanes: ((0+4)+(1+5)) + ((2+6)+(3+7)), each.
CRUMB_AVX2 inline __m128 add_lanes(__m256 a, __m256 b, __m256 c, __m256 d) {
  const __m128 a4 = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 b4 = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  const __m128 c4 = _mm_add_ps(_mm256_castps256_ps128(c), _mm256_extractf128_ps(c, 1));
  const __m128 d4 = _mm_add_ps(_mm256_castps256_ps128(d), _mm256_extractf128_ps(d, 1));
  return _mm_hadd_ps(_mm_hadd_ps(a4, b4), _mm_hadd_ps(c4, d4));
}

template <size_t M, size_t N>
CRUMB_AVX2 void tile(const FloatProduct& p, size_t n, size_t r) {
  __m256 sums[M][N];
  const float* x = p.x + n * p.x_stride;
  const float* w = p.w + r * p.w_stride;
  for (size_t i = 0; i < M; ++i) {
    for (size_t j = 0; j < N; ++j) sums[i][j] = _mm256_setzero_ps();
  }
  const size_t whole = p.cols / kLanes * kLanes;
  for (size_t k = 0; k < whole; k += kLanes) {
    __m256 rows[N];
    for (size_t j = 0; j < N; ++j) rows[j] = _mm256_loadu_ps(w + j * p.w_stride + k);
    for (size_t i = 0; i < M; ++i) {
      const __m256 values = _mm256_loadu_ps(x + i * p.x_stride + k);
      for (size_t j = 0; j < N; ++j) sums[i][j] = _mm256_fmadd_ps(values, rows[j], sums[i][j]);
    }
  }
  if (whole < p.cols) {
    const __m256i mask = mask_of(p.cols - whole);
    for (size_t i = 0; i < M; ++i) {
      const __m256 values = _mm256_maskload_ps(x + i * p.x_stride + whole, mask);
      for (size_t j = 0; j < N; ++j) {
        sums[i][j] =
            _mm256_fmadd_ps(values, _mm256_maskload_ps(w + j * p.w_stride + whole, mask), sums[i][j]);
      }
    }
  }
  const __m256 zero = _mm256_setzero_ps();
  for (size_t i = 0; i < M; ++i) {
    const __m128 totals = add_lanes(sums[i][0], N > 1 ? sums[i][N > 1 ? 1 : 0] : zero,
                                    N > 2 ? sums[i][N > 2 ? 2 : 0] : zero, zero);
    float* y = p.y + (n + i) * p.y_stride + r;
    if constexpr (N == 3) {
      _mm_maskstore_ps(y, _mm_setr_epi32(-1, -1, -1, 0), totals);
    } else {
      _mm_store_ss(y, totals);
    }
  }
}

template <size_t M>
CRUMB_AVX2 void x_rows(const FloatProduct& p, size_t n, size_t r, size_t end) {
  for (; r + kTileW <= end; r += kTileW) tile<M, kTileW>(p, n, r);
  for (; r < end; ++r) tile<M, 1>(p, n, r);
}

}  // namespace

void float_product_avx2(const FloatProduct& p) {
  const size_t step = cached_rows(p.cols, kTileW);
  for (size_t r = 0; r < p.rows; r += step) {
    const size_t end = p.rows - r < step ? p.rows : r + step;
    size_t n = 0;
    for (; n + kTileX <= p.batch; n += kTileX) x_rows<kTileX>(p, n, r, end);
    for (; n < p.batch; ++n) x_rows<1>(p, n, r, end);
  }
}

}  // namespace crumb::runtime

#else

namespace crumb::runtime {
void float_product_avx2(const FloatProduct& product) { float_product_portable(product); }
}  // namespace crumb::runtime

#endif
