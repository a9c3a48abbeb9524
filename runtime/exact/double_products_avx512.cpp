// subtract_products() with AVX-512. The instruction set is named function by function, so that nothing inline
// of the standard library is compiled for it.
#include "runtime/exact/double_products.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define CRUMB_AVX512 __attribute__((target("avx512f,avx512vl,avx512dq,avx2,fma")))

namespace crumb::runtime::exact {
namespace {

constexpr std::size_t kLanes = 8, kTileRows = 8, kVectors = 3;

template <std::size_t M, std::size_t N>
CRUMB_AVX512 void tile(const DoubleProducts& p, std::size_t m, std::size_t n, std::size_t k0,
                       std::size_t terms, __mmask8 last) {
  const double* x = p.x + m * p.x_row + k0 * p.x_term;
  const double* w = p.w + k0 * p.w_row + n;
  double* y = p.y + m * p.y_row + n;
  const auto mask = [&](std::size_t j) { return j + 1 == N ? last : static_cast<__mmask8>(0xFF); };
  __m512d sums[M][N];
  for (std::size_t i = 0; i < M; ++i)
    for (std::size_t j = 0; j < N; ++j)
      sums[i][j] = _mm512_maskz_loadu_pd(mask(j), y + i * p.y_row + j * kLanes);
  for (std::size_t k = 0; k < terms; ++k) {
    __m512d row[N];
    for (std::size_t j = 0; j < N; ++j) row[j] = _mm512_maskz_loadu_pd(mask(j), w + k * p.w_row + j * kLanes);
    for (std::size_t i = 0; i < M; ++i) {
      const __m512d value = _mm512_set1_pd(x[i * p.x_row + k * p.x_term]);
      for (std::size_t j = 0; j < N; ++j) sums[i][j] = _mm512_fnmadd_pd(value, row[j], sums[i][j]);
    }
  }
  for (std::size_t i = 0; i < M; ++i)
    for (std::size_t j = 0; j < N; ++j)
      _mm512_mask_storeu_pd(y + i * p.y_row + j * kLanes, mask(j), sums[i][j]);
}

template <std::size_t N>
CRUMB_AVX512 void all_rows(const DoubleProducts& p, std::size_t n, std::size_t k, std::size_t terms,
                           __mmask8 last) {
  std::size_t m = 0;
  for (; m + kTileRows <= p.rows; m += kTileRows) tile<kTileRows, N>(p, m, n, k, terms, last);
  for (; m < p.rows; ++m) tile<1, N>(p, m, n, k, terms, last);
}

}  // namespace

void subtract_products_avx512(const DoubleProducts& p) {
  for_each_block(
      p, kVectors * kLanes, [&](std::size_t n, std::size_t columns, std::size_t k, std::size_t terms) {
        const std::size_t vectors = (columns + kLanes - 1) / kLanes, left = columns - (vectors - 1) * kLanes;
        const auto last = static_cast<__mmask8>((1U << left) - 1);
        if (vectors == 3) return all_rows<3>(p, n, k, terms, last);
        if (vectors == 2) return all_rows<2>(p, n, k, terms, last);
        all_rows<1>(p, n, k, terms, last);
      });
}

}  // namespace crumb::runtime::exact

#else

namespace crumb::runtime::exact {
void subtract_products_avx512(const DoubleProducts& products) { subtract_products_ref(products); }
}  // namespace crumb::runtime::exact

#endif
