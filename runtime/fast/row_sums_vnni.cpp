// lane_sums() with AVX-512 VNNI. The instruction sets are named function by function, so that nothing inline
// of the standard library is compiled for them.
#include "runtime/fast/row_sums.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define CRUMB_VNNI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2")))
#define CRUMB_INLINE CRUMB_VNNI inline __attribute__((always_inline))

namespace crumb::runtime {
namespace {

constexpr __mmask16 kAll = 0xFFFF;  // GCC 12 takes the forms without a mask for reads of nothing

/// The table of the levels of codes of up to four bits, or the bit in which bytes differ from codes.
template <int Bits>
CRUMB_INLINE __m512i table_of(const PackedRows& w) {
  if constexpr (Bits == 8) return _mm512_set1_epi8(static_cast<char>(w.levels ? *w.levels->flip : 0));
  return _mm512_maskz_broadcast_i32x4(
      kAll, _mm_loadu_si128(reinterpret_cast<const __m128i*>(w.levels->above.data())));
}

/// Plane P of 64 bytes, as bytes `above`.
template <int Bits, int P>
CRUMB_INLINE __m512i plane(__m512i bytes, __m512i table) {
  if constexpr (Bits == 8) return _mm512_xor_si512(bytes, table);
  const __m512i shifted = P == 0 ? bytes : _mm512_maskz_srli_epi32(kAll, bytes, Bits * P);
  return _mm512_shuffle_epi8(table,
                             _mm512_and_si512(shifted, _mm512_set1_epi8(static_cast<char>((1 << Bits) - 1))));
}

template <int Bits, std::size_t M, int P = 0>
CRUMB_INLINE void add_planes(__m512i bytes, __m512i table, const std::int8_t* q, std::size_t stride,
                             __m512i (&sums)[M]) {
  if constexpr (P < 8 / Bits) {
    const __m512i above = plane<Bits, P>(bytes, table);
    for (std::size_t m = 0; m < M; ++m)
      sums[m] = _mm512_dpbusd_epi32(sums[m], above, _mm512_loadu_si512(q + m * stride + P * kChunkBytes));
    add_planes<Bits, M, P + 1>(bytes, table, q, stride, sums);
  }
}

template <int Bits, std::size_t M>
CRUMB_VNNI void sums_of(const PlaneRows& x, std::size_t first, const PackedRows& w, std::size_t n,
                        const Lanes& to) {
  const __m512i table = table_of<Bits>(w);
  const std::int8_t* q = x.q.data() + first * x.stride;
  std::int32_t* lanes = to.at + first * to.x_stride + n * to.row_stride;
  const std::uint8_t* const row = w.codes + n * w.stride;
  for (std::size_t at = 0; at < w.bytes; at += kChunkBytes) {
    __m512i bytes;
    if (w.bytes - at >= kChunkBytes) {
      _mm_prefetch(reinterpret_cast<const char*>(row + at + 2048), _MM_HINT_T0);
      bytes = _mm512_loadu_si512(row + at);
    } else {
      bytes = _mm512_maskz_loadu_epi8((__mmask64{1} << (w.bytes - at)) - 1, row + at);
    }
    __m512i sums[M];
    for (__m512i& sum : sums) sum = _mm512_setzero_si512();
    add_planes<Bits, M>(bytes, table, q, x.stride, sums);
    for (std::size_t m = 0; m < M; ++m) _mm512_storeu_si512(lanes + m * to.x_stride, sums[m]);
    q += 8 / Bits * kChunkBytes;
    lanes += kChunkLanes;
  }
}

template <int Bits>
CRUMB_VNNI void some_rows(const PlaneRows& x, const PackedRows& w, const Lanes& lanes) {
  static_assert(kPlaneRows == 4);
  for (std::size_t n = 0; n < w.rows; ++n) {
    if (x.rows == 4) {
      sums_of<Bits, 4>(x, 0, w, n, lanes);
      continue;
    }
    if (x.rows >= 2) sums_of<Bits, 2>(x, 0, w, n, lanes);
    if (x.rows % 2 == 1) sums_of<Bits, 1>(x, x.rows - 1, w, n, lanes);
  }
}

}  // namespace

void lane_sums_vnni(const PlaneRows& x, const PackedRows& w, const Lanes& lanes) {
  switch (x.bits) {
    case 1: return some_rows<1>(x, w, lanes);
    case 2: return some_rows<2>(x, w, lanes);
    case 4: return some_rows<4>(x, w, lanes);
    default: return some_rows<8>(x, w, lanes);
  }
}

}  // namespace crumb::runtime
#else
namespace crumb::runtime {
void lane_sums_vnni(const PlaneRows& x, const PackedRows& w, const Lanes& lanes) {
  lane_sums_ref(x, w, lanes);
}
}  // namespace crumb::runtime
#endif
