// row_sums.h with AVX2.
//
// vpmaddubsw adds two products in 16 bits, where products of a few planes are added as long as they fit. Of
// bytes too wide for that 128 is subtracted: magnitudes and q with their signs make at most 2 * 128 * 127 =
// 32,512, and 128 times the sum of q is added behind. The instruction set is named function by function, so
// that nothing inline of the standard library is compiled for it.
#include "runtime/fast/row_sums.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#define CRUMB_AVX2 __attribute__((target("avx2")))
#define CRUMB_INLINE CRUMB_AVX2 inline __attribute__((always_inline))

namespace crumb::runtime {
namespace {

constexpr std::size_t kHalf = kChunkBytes / 2, kLanes = 8;

CRUMB_INLINE __m256i load(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
CRUMB_INLINE void store(void* to, __m256i value) { _mm256_storeu_si256(static_cast<__m256i*>(to), value); }

/// The table of the levels of codes of up to four bits, or the bit in which bytes differ from codes.
template <int Bits>
CRUMB_INLINE __m256i table_of(const PackedRows& w) {
  if constexpr (Bits == 8) return _mm256_set1_epi8(static_cast<char>(w.levels ? *w.levels->flip : 0));
  return _mm256_broadcastsi128_si256(
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(w.levels->above.data())));
}

/// Plane P of 32 bytes, as bytes `above`.
template <int Bits, int P>
CRUMB_INLINE __m256i plane(__m256i bytes, __m256i table) {
  if constexpr (Bits == 8) return _mm256_xor_si256(bytes, table);
  const __m256i shifted = P == 0 ? bytes : _mm256_srli_epi32(bytes, Bits * P);
  return _mm256_shuffle_epi8(table,
                             _mm256_and_si256(shifted, _mm256_set1_epi8(static_cast<char>((1 << Bits) - 1))));
}

CRUMB_INLINE __m256i pairs_to_sums(__m256i pairs) { return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); }

/// Narrow bytes: all planes are added in 16 bits.
template <int Bits, bool kIsWide, std::size_t M, int P = 0>
CRUMB_INLINE void add_planes(__m256i bytes, __m256i table, const std::int8_t* q, std::size_t stride,
                             __m256i (&sums)[M]) {
  if constexpr (P < 8 / Bits) {
    const __m256i above = plane<Bits, P>(bytes, table);
    for (std::size_t m = 0; m < M; ++m) {
      const __m256i terms = load(q + m * stride + P * kChunkBytes);
      if constexpr (kIsWide) {
        const __m256i centred = _mm256_xor_si256(above, _mm256_set1_epi8(-128));
        const __m256i products =
            _mm256_maddubs_epi16(_mm256_abs_epi8(centred), _mm256_sign_epi8(terms, centred));
        const __m256i q_pairs =
            _mm256_maddubs_epi16(_mm256_set1_epi8(1), terms);  // 128 times it was left out
        const __m256i left_out = _mm256_madd_epi16(q_pairs, _mm256_set1_epi16(128));
        sums[m] = _mm256_add_epi32(sums[m], _mm256_add_epi32(pairs_to_sums(products), left_out));
      } else {
        sums[m] = _mm256_add_epi16(sums[m], _mm256_maddubs_epi16(above, terms));
      }
    }
    add_planes<Bits, kIsWide, M, P + 1>(bytes, table, q, stride, sums);
  }
}

template <int Bits, bool kIsWide, std::size_t M>
CRUMB_AVX2 void sums_of(const PlaneRows& x, std::size_t first, const PackedRows& w, std::size_t n,
                        const Lanes& to) {
  const __m256i table = table_of<Bits>(w);
  const std::int8_t* q = x.q.data() + first * x.stride;
  std::int32_t* lanes = to.at + first * to.x_stride + n * to.row_stride;
  const std::uint8_t* const row = w.codes + n * w.stride;
  for (std::size_t at = 0; at < w.bytes; at += kChunkBytes) {
    alignas(32) std::uint8_t last[kChunkBytes] = {};
    const std::uint8_t* codes = row + at;
    if (w.bytes - at < kChunkBytes) {
      std::memcpy(last, codes, w.bytes - at);
      codes = last;
    } else {
      _mm_prefetch(reinterpret_cast<const char*>(codes + 1024), _MM_HINT_T0);
    }
    for (std::size_t half = 0; half < 2; ++half) {
      __m256i sums[M];
      for (__m256i& sum : sums) sum = _mm256_setzero_si256();
      add_planes<Bits, kIsWide, M>(load(codes + half * kHalf), table, q + half * kHalf, x.stride, sums);
      for (std::size_t m = 0; m < M; ++m)
        store(lanes + m * to.x_stride + half * kLanes, kIsWide ? sums[m] : pairs_to_sums(sums[m]));
    }
    q += 8 / Bits * kChunkBytes;
    lanes += kChunkLanes;
  }
}

template <int Bits, bool kIsWide>
CRUMB_AVX2 void some_rows(const PlaneRows& x, const PackedRows& w, const Lanes& lanes) {
  static_assert(kPlaneRows == 4);
  for (std::size_t n = 0; n < w.rows; ++n) {
    if (x.rows == 4) {
      sums_of<Bits, kIsWide, 4>(x, 0, w, n, lanes);
      continue;
    }
    if (x.rows >= 2) sums_of<Bits, kIsWide, 2>(x, 0, w, n, lanes);
    if (x.rows % 2 == 1) sums_of<Bits, kIsWide, 1>(x, x.rows - 1, w, n, lanes);
  }
}

template <int Bits>
void by_width(const PlaneRows& x, const PackedRows& w, const Lanes& lanes) {
  constexpr int kPlanes = 8 / Bits, kMost = 32767 / (2 * 127 * kPlanes);
  if (w.widest <= kMost) return some_rows<Bits, false>(x, w, lanes);
  some_rows<Bits, true>(x, w, lanes);
}

/// Sums of neighbouring fours of 32 lanes, or of twos of 16, in their order.
CRUMB_INLINE __m256i fours(const std::int32_t* lanes) {
  const __m256i low = _mm256_hadd_epi32(load(lanes), load(lanes + kLanes));
  const __m256i high = _mm256_hadd_epi32(load(lanes + 2 * kLanes), load(lanes + 3 * kLanes));
  return _mm256_permutevar8x32_epi32(_mm256_hadd_epi32(low, high), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
CRUMB_INLINE __m256i twos(const std::int32_t* lanes) {
  return _mm256_permute4x64_epi64(_mm256_hadd_epi32(load(lanes), load(lanes + kLanes)), 0xD8);
}

/// Adds neighbours up, `kEach` at a time; the sums may be where the lanes begin.
template <std::size_t kEach>
CRUMB_AVX2 void add_neighbours(const std::int32_t* lanes, std::size_t count, std::int32_t* sums) {
  std::size_t i = 0;
  for (; i + kEach * kLanes <= count; i += kEach * kLanes)
    store(sums + i / kEach, kEach == 4 ? fours(lanes + i) : twos(lanes + i));
  add_lanes_ref(lanes + i, count - i, kEach, sums + i / kEach);
}

/// Eight rows of eight floats as eight columns.
CRUMB_INLINE void transpose(__m256 (&r)[8]) {
  __m256 t[8];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  __m256 u[8];
#pragma GCC unroll 2
  for (std::size_t i = 0; i < 8; i += 4) {
    u[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xEE);
    u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) {
    r[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
    r[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
  }
}

/// Eight rows.
CRUMB_AVX2 void weighted_eight(const std::int32_t* sums, const std::int32_t* starts, const float* scales,
                               std::size_t count, float* made) {
  __m256 total = _mm256_setzero_ps();
  std::size_t b = 0;
  for (; b + kLanes <= count; b += kLanes) {
    const __m256i start = load(starts + b);
    __m256 rows[kLanes];
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kLanes; ++r) {
      const __m256i sum = _mm256_add_epi32(load(sums + r * count + b), start);
      rows[r] = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_loadu_ps(scales + r * count + b));
    }
    transpose(rows);
#pragma GCC unroll 8
    for (const __m256& column : rows) total = _mm256_add_ps(total, column);
  }
  _mm256_storeu_ps(made, total);
  for (; b < count; ++b) {
    for (std::size_t r = 0; r < kLanes; ++r) {
      const float weighted = static_cast<float>(sums[r * count + b] + starts[b]) * scales[r * count + b];
      made[r] += weighted;
    }
  }
}

}  // namespace

void lane_sums_avx2(const PlaneRows& x, const PackedRows& w, const Lanes& lanes) {
  switch (x.bits) {
    case 1: return by_width<1>(x, w, lanes);
    case 2: return by_width<2>(x, w, lanes);
    case 4: return by_width<4>(x, w, lanes);
    default: return by_width<8>(x, w, lanes);
  }
}

void add_lanes_avx2(std::int32_t* lanes, std::size_t count, std::size_t each, std::int32_t* sums) {
  count = count / each * each;
  for (; each % 4 == 0 && each > 4; each /= 4, count /= 4) add_neighbours<4>(lanes, count, lanes);
  for (; each % 2 == 0 && each > 4; each /= 2, count /= 2) add_neighbours<2>(lanes, count, lanes);
  if (each == 4) return add_neighbours<4>(lanes, count, sums);
  if (each == 2) return add_neighbours<2>(lanes, count, sums);
  if (each == 1) return static_cast<void>(std::memcpy(sums, lanes, count * sizeof *lanes));
  add_lanes_ref(lanes, count, each, sums);
}

void weighted_sums_avx2(const std::int32_t* sums, const std::int32_t* starts, const float* scales,
                        std::size_t rows, std::size_t count, float* made) {
  std::size_t r = 0;
  for (; r + kLanes <= rows; r += kLanes)
    weighted_eight(sums + r * count, starts, scales + r * count, count, made + r);
  weighted_sums_ref(sums + r * count, starts, scales + r * count, rows - r, count, made + r);
}

}  // namespace crumb::runtime
#else
namespace crumb::runtime {

void lane_sums_avx2(const PlaneRows& x, const PackedRows& w, const Lanes& lanes) {
  lane_sums_ref(x, w, lanes);
}
void add_lanes_avx2(std::int32_t* lanes, std::size_t count, std::size_t each, std::int32_t* sums) {
  add_lanes_ref(lanes, count, each, sums);
}
void weighted_sums_avx2(const std::int32_t* sums, const std::int32_t* starts, const float* scales,
                        std::size_t rows, std::size_t count, float* made) {
  weighted_sums_ref(sums, starts, scales, rows, count, made);
}

}  // namespace crumb::runtime
#endif
