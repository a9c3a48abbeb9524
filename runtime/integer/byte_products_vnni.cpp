// Byte products with AVX-512 VNNI: 64 of them in one instruction. Tiles of up to six rows by four vectors
// keep their sums in registers over all terms. The instruction sets are named function by function, as in
// products_avx2.cpp.
#include "runtime/integer/byte_products.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#define CRUMB_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

namespace crumb::runtime::integer {
namespace {

constexpr std::size_t kTileRows = 6, kTileVectors = 4;

template <InVectors kWhich, std::size_t M, std::size_t N>
CRUMB_VNNI void tile(const ByteProducts& p, std::size_t r, std::size_t v) {
  __m512i sums[M][N];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < M; ++i) {
#pragma GCC unroll 8
    for (std::size_t j = 0; j < N; ++j) {
      sums[i][j] = kWhich == InVectors::kWeights ? _mm512_loadu_si512(p.start + (v + j) * kLanes)
                                                 : _mm512_set1_epi32(p.start[r + i]);
    }
  }
  const std::byte* row = p.row + r * p.row_stride;
  const std::byte* vector = p.vector + v * p.vector_step();
  const std::size_t step = p.vector_step();
  for (std::size_t g = 0; g < p.groups; ++g, row += kGroup, vector += kVectorBytes) {
    __m512i columns[N];
#pragma GCC unroll 8
    for (std::size_t j = 0; j < N; ++j) columns[j] = _mm512_loadu_si512(vector + j * step);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < M; ++i) {
      std::int32_t terms = 0;
      std::memcpy(&terms, row + i * p.row_stride, sizeof terms);
      const __m512i four = _mm512_set1_epi32(terms);
#pragma GCC unroll 8
      for (std::size_t j = 0; j < N; ++j) {
        sums[i][j] = kWhich == InVectors::kWeights ? _mm512_dpbusd_epi32(sums[i][j], four, columns[j])
                                                   : _mm512_dpbusd_epi32(sums[i][j], columns[j], four);
      }
    }
  }
#pragma GCC unroll 8
  for (std::size_t i = 0; i < M; ++i) {
#pragma GCC unroll 8
    for (std::size_t j = 0; j < N; ++j)
      _mm512_storeu_si512(p.y + (r + i) * p.y_stride + (v + j) * kLanes, sums[i][j]);
  }
}

template <InVectors kWhich, std::size_t N>
void columns_of(const ByteProducts& p, std::size_t v) {
  std::size_t r = 0;
  for (; r + kTileRows <= p.rows; r += kTileRows) tile<kWhich, kTileRows, N>(p, r, v);
  if (r + 4 <= p.rows) tile<kWhich, 4, N>(p, r, v), r += 4;
  if (r + 2 <= p.rows) tile<kWhich, 2, N>(p, r, v), r += 2;
  if (r < p.rows) tile<kWhich, 1, N>(p, r, v);
}

template <InVectors kWhich>
void all_columns(const ByteProducts& p) {
  std::size_t v = 0;
  for (; v + kTileVectors <= p.vectors; v += kTileVectors) columns_of<kWhich, kTileVectors>(p, v);
  if (v + 2 <= p.vectors) columns_of<kWhich, 2>(p, v), v += 2;
  if (v < p.vectors) columns_of<kWhich, 1>(p, v);
}

}  // namespace

void multiply_quads_vnni(InVectors which, const ByteProducts& p) {
  if (which == InVectors::kWeights) {
    all_columns<InVectors::kWeights>(p);
  } else {
    all_columns<InVectors::kCodes>(p);
  }
}

}  // namespace crumb::runtime::integer

#else

namespace crumb::runtime::integer {
void multiply_quads_vnni(InVectors which, const ByteProducts& products) {
  multiply_bytes_ref(which, products);
}
}  // namespace crumb::runtime::integer

#endif
