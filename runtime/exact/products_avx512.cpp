// multiply() with AVX-512: sixteen partial sums are one vector. The instruction set is named function by
// function, so that nothing inline of the standard library is compiled for it.
#include "runtime/exact/products.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define CRUMB_AVX512 __attribute__((target("avx512f,avx512vl,avx512dq,avx2,fma")))

namespace crumb::runtime::exact {
namespace {

// 24 sums, four of w and one of x: of 32 registers. Ten reads for 24 products leave time for reads across two
// cache lines.
constexpr std::size_t kTileX = 6, kTileW = 4;
constexpr std::size_t kFolded = 8;  // rows of sums; four are folded together
constexpr __mmask16 kAll = 0xFFFF;  // GCC 12 takes the forms without a mask for reads of nothing

/// Adds the halves of what is left of each sum, of two vectors; step by step from sixteen parts to one.
CRUMB_AVX512 inline __m512 halves(__m512 a, __m512 b) {
  return _mm512_add_ps(_mm512_maskz_shuffle_f32x4(kAll, a, b, 0x44),
                       _mm512_maskz_shuffle_f32x4(kAll, a, b, 0xEE));
}
CRUMB_AVX512 inline __m512 quarters(__m512 a, __m512 b) {
  return _mm512_add_ps(_mm512_maskz_shuffle_f32x4(kAll, a, b, 0x88),
                       _mm512_maskz_shuffle_f32x4(kAll, a, b, 0xDD));
}
CRUMB_AVX512 inline __m512 eighths(__m512 a, __m512 b) {
  return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xEE));
}
CRUMB_AVX512 inline __m512 last(__m512 a, __m512 b) {
  return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xDD));
}

/// Element 4 i + j is the sum of the parts of s[i][j], for four rows, in the order of fold().
CRUMB_AVX512 inline __m512 folded(const __m512 (*s)[kTileW]) {
  __m512 four[kTileW];  // lane i: four parts of s[i][j]
  for (std::size_t j = 0; j < kTileW; ++j)
    four[j] = quarters(halves(s[0][j], s[1][j]), halves(s[2][j], s[3][j]));
  return last(eighths(four[0], four[1]), eighths(four[2], four[3]));
}

/// Of M rows, to [kTileX][kTileW].
template <std::size_t M>
CRUMB_AVX512 inline void store(const __m512 (&sums)[kFolded][kTileW], float* made) {
  _mm512_store_ps(made, folded(sums));
  if constexpr (M > 4) _mm512_mask_store_ps(made + 4 * kTileW, 0xFF, folded(sums + 4));
}

template <std::size_t M, std::size_t N>
CRUMB_AVX512 void tile(const Products& p, std::size_t m, std::size_t n) {
  __m512 sums[kFolded][kTileW];
  const float* x = p.x + m * p.x_stride;
  const float* w = p.w + n * p.w_stride;
  for (auto& row : sums) {
    for (__m512& sum : row) sum = _mm512_setzero_ps();
  }
  const std::size_t whole = p.terms / kPartialSums * kPartialSums;
  for (std::size_t k = 0; k < whole; k += kPartialSums) {
    __m512 rows[N];
    for (std::size_t j = 0; j < N; ++j) {
      rows[j] = _mm512_loadu_ps(w + j * p.w_stride + k);
      asm("" : "+v"(rows[j]));  // or GCC loads it again for every row of x
    }
    for (std::size_t i = 0; i < M; ++i) {
      const __m512 values = _mm512_loadu_ps(x + i * p.x_stride + k);
      for (std::size_t j = 0; j < N; ++j) sums[i][j] = _mm512_fmadd_ps(values, rows[j], sums[i][j]);
    }
  }
  if (whole < p.terms) {  // zeros fill up
    const auto mask = static_cast<__mmask16>((1U << (p.terms - whole)) - 1);
    for (std::size_t i = 0; i < M; ++i) {
      const __m512 values = _mm512_maskz_loadu_ps(mask, x + i * p.x_stride + whole);
      for (std::size_t j = 0; j < N; ++j) {
        const __m512 row = _mm512_maskz_loadu_ps(mask, w + j * p.w_stride + whole);
        sums[i][j] = _mm512_fmadd_ps(values, row, sums[i][j]);
      }
    }
  }
  alignas(64) float made[kTileX][kTileW];
  store<M>(sums, &made[0][0]);
  for (std::size_t i = 0; i < M; ++i) {
    for (std::size_t j = 0; j < N; ++j) p.y[(m + i) * p.y_row + (n + j) * p.y_column] = made[i][j];
  }
}

template <std::size_t M>
CRUMB_AVX512 void rows(const Products& p, std::size_t m, std::size_t begin, std::size_t end) {
  std::size_t n = begin;
  for (; n + kTileW <= end; n += kTileW) tile<M, kTileW>(p, m, n);
  for (; n < end; ++n) tile<M, 1>(p, m, n);
}

}  // namespace

void multiply_avx512(const Products& p) {
  constexpr std::size_t kCached =
      std::size_t{256} * 1024 / sizeof(float);  // rows of w that stay in the second cache
  const std::size_t fit = kCached / (p.terms + 1), step = fit < kTileW ? kTileW : fit / kTileW * kTileW;
  for (std::size_t n = 0; n < p.columns; n += step) {
    const std::size_t end = p.columns - n < step ? p.columns : n + step;
    std::size_t m = 0;
    for (; m + kTileX <= p.rows; m += kTileX) rows<kTileX>(p, m, n, end);
    for (; m + 4 <= p.rows; m += 4) rows<4>(p, m, n, end);
    for (; m + 2 <= p.rows; m += 2) rows<2>(p, m, n, end);
    for (; m < p.rows; ++m) rows<1>(p, m, n, end);
  }
}

}  // namespace crumb::runtime::exact

#else

namespace crumb::runtime::exact {
void multiply_avx512(const Products& products) { multiply_ref(products); }
}  // namespace crumb::runtime::exact

#endif
