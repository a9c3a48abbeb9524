// subtract_products() with AVX2 and FMA. The instruction set is named function by function, so that nothing
// inline of the standard library is compiled for it.
#include "runtime/exact/double_products.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define CRUMB_AVX2 __attribute__((target("avx2,fma")))

namespace crumb::runtime::exact {
namespace {

constexpr std::size_t kLanes = 4, kTileRows = 4, kVectors = 3;

/// The first `count` lanes.
CRUMB_AVX2 inline __m256i lanes(std::size_t count) {
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(static_cast<long long>(count)),
                            _mm256_setr_epi64x(0, 1, 2, 3));
}

template <std::size_t M, std::size_t N>
CRUMB_AVX2 void tile(const DoubleProducts& p, std::size_t m, std::size_t n, std::size_t k0, std::size_t terms,
                     std::size_t left) {
  const double* x = p.x + m * p.x_row + k0 * p.x_term;
  const double* w = p.w + k0 * p.w_row + n;
  double* y = p.y + m * p.y_row + n;
  const __m256i last = lanes(left);
  const bool is_whole = left == kLanes;
  __m256d sums[M][N];
  for (std::size_t i = 0; i < M; ++i)
    for (std::size_t j = 0; j < N; ++j) {
      const double* from = y + i * p.y_row + j * kLanes;
      sums[i][j] = j + 1 == N && !is_whole ? _mm256_maskload_pd(from, last) : _mm256_loadu_pd(from);
    }
  for (std::size_t k = 0; k < terms; ++k) {
    __m256d row[N];
    for (std::size_t j = 0; j < N; ++j) {
      const double* from = w + k * p.w_row + j * kLanes;
      row[j] = j + 1 == N && !is_whole ? _mm256_maskload_pd(from, last) : _mm256_loadu_pd(from);
    }
    for (std::size_t i = 0; i < M; ++i) {
      const __m256d value = _mm256_set1_pd(x[i * p.x_row + k * p.x_term]);
      for (std::size_t j = 0; j < N; ++j) sums[i][j] = _mm256_fnmadd_pd(value, row[j], sums[i][j]);
    }
  }
  for (std::size_t i = 0; i < M; ++i)
    for (std::size_t j = 0; j < N; ++j) {
      double* to = y + i * p.y_row + j * kLanes;
      if (j + 1 == N && !is_whole)
        _mm256_maskstore_pd(to, last, sums[i][j]);
      else
        _mm256_storeu_pd(to, sums[i][j]);
    }
}

template <std::size_t N>
CRUMB_AVX2 void all_rows(const DoubleProducts& p, std::size_t n, std::size_t k, std::size_t terms,
                         std::size_t left) {
  std::size_t m = 0;
  for (; m + kTileRows <= p.rows; m += kTileRows) tile<kTileRows, N>(p, m, n, k, terms, left);
  for (; m < p.rows; ++m) tile<1, N>(p, m, n, k, terms, left);
}

}  // namespace

void subtract_products_avx2(const DoubleProducts& p) {
  for_each_block(
      p, kVectors * kLanes, [&](std::size_t n, std::size_t columns, std::size_t k, std::size_t terms) {
        const std::size_t vectors = (columns + kLanes - 1) / kLanes, left = columns - (vectors - 1) * kLanes;
        if (vectors == 3) return all_rows<3>(p, n, k, terms, left);
        if (vectors == 2) return all_rows<2>(p, n, k, terms, left);
        all_rows<1>(p, n, k, terms, left);
      });
}

}  // namespace crumb::runtime::exact

#else

namespace crumb::runtime::exact {
void subtract_products_avx2(const DoubleProducts& products) { subtract_products_ref(products); }
}  // namespace crumb::runtime::exact

#endif
