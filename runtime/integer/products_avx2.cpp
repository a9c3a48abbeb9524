// multiply() with AVX2: sixteen terms are one multiplication of pairs (vpmaddwd) and one addition. The
// instruction set is named function by function, so that nothing inline of the standard library is compiled
// for it.
#include "runtime/integer/products.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define CRUMB_AVX2 __attribute__((target("avx2,fma")))

namespace crumb::runtime::integer {
namespace {

constexpr std::size_t kTileX = 2, kTileW = 4;

CRUMB_AVX2 inline __m256i load(const std::int16_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

/// The sums of four vectors' lanes.
CRUMB_AVX2 inline __m128i sums_of(__m256i a, __m256i b, __m256i c, __m256i d) {
  const __m256i pairs = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
  return _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
}

template <std::size_t M, std::size_t N>
CRUMB_AVX2 void tile(const Products& p, std::size_t m, std::size_t n) {
  __m256i sums[M][kTileW];
  const std::int16_t* x = p.x + m * p.terms;
  const std::int16_t* w = p.w + n * p.terms;
  for (std::size_t i = 0; i < M; ++i) {
    for (std::size_t j = 0; j < kTileW; ++j) sums[i][j] = _mm256_setzero_si256();
  }
  for (std::size_t k = 0; k < p.terms; k += kTerms) {
    __m256i rows[N];
    for (std::size_t j = 0; j < N; ++j) rows[j] = load(w + j * p.terms + k);
    for (std::size_t i = 0; i < M; ++i) {
      const __m256i values = load(x + i * p.terms + k);
      for (std::size_t j = 0; j < N; ++j)
        sums[i][j] = _mm256_add_epi32(sums[i][j], _mm256_madd_epi16(values, rows[j]));
    }
  }
  for (std::size_t i = 0; i < M; ++i) {
    alignas(16) std::int32_t made[kTileW];
    _mm_store_si128(reinterpret_cast<__m128i*>(made),
                    sums_of(sums[i][0], sums[i][1], sums[i][2], sums[i][3]));
    for (std::size_t j = 0; j < N; ++j) p.y[(n + j) * p.y_stride + m + i] = made[j];
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
      std::size_t{256} * 1024 / sizeof(std::int16_t);  // rows of w in the second cache
  const std::size_t fit = kCached / (p.terms + 1), step = fit < kTileW ? kTileW : fit / kTileW * kTileW;
  for (std::size_t n = 0; n < p.columns; n += step) {
    const std::size_t end = p.columns - n < step ? p.columns : n + step;
    std::size_t m = 0;
    for (; m + kTileX <= p.rows; m += kTileX) rows<kTileX>(p, m, n, end);
    for (; m < p.rows; ++m) rows<1>(p, m, n, end);
  }
}

}  // namespace crumb::runtime::integer

#else

namespace crumb::runtime::integer {
void multiply_avx2(const Products& products) { multiply_ref(products); }
}  // namespace crumb::runtime::integer

#endif
