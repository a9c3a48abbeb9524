// weighted_rows() with AVX-512 VNNI. The instruction sets are named function by function, so that nothing
// inline of the standard library is compiled for them.
#include "runtime/fast/row_sums.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#define CRUMB_KERNEL __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2")))
#define CRUMB_INLINE CRUMB_KERNEL inline __attribute__((always_inline))

namespace crumb::runtime {
namespace {

#include "runtime/fast/row_chunks.inc"

constexpr __mmask16 kAll = 0xFFFF;  // GCC 12 takes the forms without a mask for reads of nothing
constexpr __mmask32 kWords = 0xFFFFFFFF;
constexpr __mmask8 kQuads = 0xFF;

CRUMB_INLINE __m512i bytes_of(std::uint8_t byte) { return _mm512_set1_epi8(static_cast<char>(byte)); }

/// Sixteen levels, again and again.
CRUMB_INLINE __m512i sixteen_levels(const LevelCodes& levels, std::size_t first) {
  return _mm512_maskz_broadcast_i32x4(
      kAll, _mm_loadu_si128(reinterpret_cast<const __m128i*>(levels.above.data() + first)));
}

/// Codes of 1, 2 or 4 bits, in planes of 64 bytes.
struct InPlanes {
  static constexpr bool kIsOnePlane = false;
  __m512i table, mask;
  __m128i bits;
  int count;  ///< of planes

  CRUMB_INLINE explicit InPlanes(const LevelCodes& levels)
      : table(sixteen_levels(levels, 0)),
        mask(bytes_of(static_cast<std::uint8_t>((1 << levels.bits) - 1))),
        bits(_mm_cvtsi32_si128(levels.bits)),
        count(8 / levels.bits) {}
  /// The bytes `above` of the first plane.
  CRUMB_INLINE __m512i above(__m512i bytes) const {
    return _mm512_shuffle_epi8(table, _mm512_and_si512(bytes, mask));
  }
  /// Where the next plane is the first one.
  CRUMB_INLINE __m512i next(__m512i bytes) const { return _mm512_maskz_srl_epi32(kAll, bytes, bits); }
};

/// Codes of eight bits, from which bytes differ in one bit.
struct Flipped {
  static constexpr bool kIsOnePlane = true;
  __m512i flip;
  CRUMB_INLINE explicit Flipped(const LevelCodes& levels) : flip(bytes_of(levels.flip.value_or(0))) {}
  CRUMB_INLINE __m512i above(__m512i bytes) const { return _mm512_xor_si512(bytes, flip); }
};

/// Where the bits of 64 codes of 3, 5, 6 or 7 bits are. Each part of 16 bytes gets the words with its 16
/// codes; of those a shuffle brings two bytes to each even code, which go down to the low byte, and two to
/// each odd one, which go up to the high byte.
struct CodePlaces {
  __m512i words, even, odd, down, up, bits;
};

CRUMB_KERNEL CodePlaces code_places(int bits) {
  alignas(64) std::uint16_t words[32], down[32], up[32];
  alignas(64) std::uint8_t even[64], odd[64];
  for (int i = 0; i < 32; ++i) {
    words[i] = static_cast<std::uint16_t>((i / 8 * bits + i % 8) % 32);
    const int first = i % 8 * 2 * bits, second = first + bits;
    for (int b = 0; b < 2; ++b) {
      even[2 * i + b] = static_cast<std::uint8_t>(first / 8 + b);
      odd[2 * i + b] = static_cast<std::uint8_t>(second / 8 + b);
    }
    down[i] = static_cast<std::uint16_t>(first % 8);
    up[i] = static_cast<std::uint16_t>(8 - second % 8);
  }
  return {_mm512_load_si512(words), _mm512_load_si512(even),
          _mm512_load_si512(odd),   _mm512_load_si512(down),
          _mm512_load_si512(up),    bytes_of(static_cast<std::uint8_t>((1 << bits) - 1))};
}

/// Codes of 3, 5, 6 or 7 bits, to bytes that differ from them in one bit, or by a table of 64 codes.
template <bool kFlips>
struct Unpacked {
  static constexpr bool kIsOnePlane = true;
  static constexpr int kParts = kFlips ? 1 : 4;
  CodePlaces places;
  __m512i table[kParts];

  CRUMB_INLINE explicit Unpacked(const LevelCodes& levels) : places(code_places(levels.bits)) {
    for (int i = 0; i < kParts; ++i)
      table[i] = kFlips ? bytes_of(levels.flip.value_or(0))
                        : sixteen_levels(levels, 16 * static_cast<std::size_t>(i));
  }
  CRUMB_INLINE __m512i above(__m512i bytes) const {
    const __m512i words = _mm512_maskz_permutexvar_epi16(kWords, places.words, bytes);
    const __m512i low = _mm512_maskz_srlv_epi16(kWords, _mm512_shuffle_epi8(words, places.even), places.down);
    const __m512i high = _mm512_maskz_sllv_epi16(kWords, _mm512_shuffle_epi8(words, places.odd), places.up);
    // Of `low` where the first has ones, else of `high`.
    const __m512i codes =
        _mm512_and_si512(_mm512_ternarylogic_epi32(_mm512_set1_epi16(0xFF), low, high, 0xCA), places.bits);
    if constexpr (kFlips) return _mm512_xor_si512(codes, table[0]);
    const __mmask64 odd = _mm512_test_epi8_mask(codes, _mm512_set1_epi8(16));
    const __m512i in_part = _mm512_and_si512(codes, _mm512_set1_epi8(15));
    const __m512i lower =
        _mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(table[0], in_part), odd, table[kParts - 3], in_part);
    const __m512i upper = _mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(table[kParts - 2], in_part), odd,
                                                   table[kParts - 1], in_part);
    return _mm512_mask_mov_epi8(lower, _mm512_test_epi8_mask(codes, _mm512_set1_epi8(32)), upper);
  }
};

CRUMB_INLINE __m256i lower_half(__m512i v) { return __builtin_shufflevector(v, v, 0, 1, 2, 3); }
CRUMB_INLINE __m256i upper_half(__m512i v) { return __builtin_shufflevector(v, v, 4, 5, 6, 7); }

/// Of eight rows of sixteen lanes the sums of neighbours, kTogether at a time, each of all rows.
template <std::size_t kTogether>
CRUMB_INLINE void neighbours(const std::int32_t* lanes, __m256i (&sums)[kChunkLanes / kTogether]) {
  constexpr std::size_t kParts = kTogether >= 4 ? 1 : 4 / kTogether;  // of four lanes
  __m512i fours[2][kParts];                                           // of four rows each
#pragma GCC unroll 2
  for (std::size_t i = 0; i < 2; ++i) {
    __m512i r[4];
#pragma GCC unroll 4
    for (std::size_t j = 0; j < 4; ++j) r[j] = _mm512_load_si512(lanes + (4 * i + j) * kChunkLanes);
    const __m512i low01 = _mm512_maskz_unpacklo_epi32(kAll, r[0], r[1]);
    const __m512i high01 = _mm512_maskz_unpackhi_epi32(kAll, r[0], r[1]);
    const __m512i low23 = _mm512_maskz_unpacklo_epi32(kAll, r[2], r[3]);
    const __m512i high23 = _mm512_maskz_unpackhi_epi32(kAll, r[2], r[3]);
    if constexpr (kTogether >= 4) {
      const __m512i of01 = _mm512_add_epi32(low01, high01), of23 = _mm512_add_epi32(low23, high23);
      fours[i][0] = _mm512_add_epi32(_mm512_maskz_unpacklo_epi64(kQuads, of01, of23),
                                     _mm512_maskz_unpackhi_epi64(kQuads, of01, of23));
    } else {
      const __m512i each[4] = {_mm512_maskz_unpacklo_epi64(kQuads, low01, low23),
                               _mm512_maskz_unpackhi_epi64(kQuads, low01, low23),
                               _mm512_maskz_unpacklo_epi64(kQuads, high01, high23),
                               _mm512_maskz_unpackhi_epi64(kQuads, high01, high23)};
#pragma GCC unroll 4
      for (std::size_t part = 0; part < kParts; ++part)
        fours[i][part] =
            kTogether == 1 ? each[part] : _mm512_add_epi32(each[2 * part % 4], each[2 * part % 4 + 1]);
    }
  }
  if constexpr (kTogether >= 8) {
    const __m512i even = _mm512_maskz_shuffle_i32x4(kAll, fours[0][0], fours[1][0], 0x88);
    const __m512i odd = _mm512_maskz_shuffle_i32x4(kAll, fours[0][0], fours[1][0], 0xDD);
    const __m512i eights = _mm512_add_epi32(even, odd);
    const __m512i in_order = _mm512_maskz_shuffle_i32x4(kAll, eights, eights, 0xD8);
    const __m256i first = lower_half(in_order);
    const __m256i second = upper_half(in_order);
    if constexpr (kTogether == 8) {
      sums[0] = first;
      sums[1] = second;
    } else {
      sums[0] = _mm256_add_epi32(first, second);
    }
  } else {
    const __m512i lower = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i upper = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
#pragma GCC unroll 4
    for (std::size_t part = 0; part < kParts; ++part) {
      const __m512i low = _mm512_permutex2var_epi64(fours[0][part], lower, fours[1][part]);
      const __m512i high = _mm512_permutex2var_epi64(fours[0][part], upper, fours[1][part]);
      sums[part] = lower_half(low);
      sums[kParts + part] = upper_half(low);
      sums[2 * kParts + part] = lower_half(high);
      sums[3 * kParts + part] = upper_half(high);
    }
  }
}

template <std::size_t M>
CRUMB_INLINE void add_plane(__m512i above, const std::int8_t* q, std::size_t q_stride, __m512i (&sums)[M]) {
#pragma GCC unroll 4
  for (std::size_t m = 0; m < M; ++m)
    sums[m] = _mm512_dpbusd_epi32(sums[m], above, _mm512_loadu_si512(q + m * q_stride));
}

/// Adds a group of chunks up: of M rows of x, and of rows [n, n + R) of weights.
template <class Codes, std::size_t R, std::size_t M>
CRUMB_INLINE void sums_of_group(const Codes& codes, const PackedRows& w, std::size_t n,
                                const GroupOfChunks& of, std::int32_t* lanes, std::size_t x_stride) {
  __m512i sums[R][M];
#pragma GCC unroll 8
  for (auto& of_row : sums)
#pragma GCC unroll 8
    for (__m512i& sum : of_row) sum = _mm512_setzero_si512();
  const std::int8_t* q = of.q;
  for (std::size_t at = of.begin; at < of.end; at += of.step, q += kChunkBytes) {
    if (n == 0) fetch_next(w, at, of.step);
    const std::size_t left = w.bytes - at;
    const __mmask64 mask = left < kChunkBytes ? (__mmask64{1} << left) - 1 : ~__mmask64{0};
    const std::uint8_t* row = w.codes + n * w.stride + at;
    if constexpr (Codes::kIsOnePlane) {
#pragma GCC unroll 8
      for (std::size_t r = 0; r < R; ++r, row += w.stride)
        add_plane(codes.above(_mm512_maskz_loadu_epi8(mask, row)), q, of.q_stride, sums[r]);
    } else {
      __m512i bytes[R];
#pragma GCC unroll 8
      for (std::size_t r = 0; r < R; ++r, row += w.stride) bytes[r] = _mm512_maskz_loadu_epi8(mask, row);
      for (int plane = codes.count;; q += kChunkBytes) {
#pragma GCC unroll 8
        for (std::size_t r = 0; r < R; ++r) {
          add_plane(codes.above(bytes[r]), q, of.q_stride, sums[r]);
          bytes[r] = codes.next(bytes[r]);
        }
        if (--plane == 0) break;
      }
    }
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (std::size_t m = 0; m < M; ++m)
      _mm512_store_si512(lanes + m * x_stride + r * kChunkLanes, sums[r][m]);
}

#include "runtime/fast/row_sums.inc"

}  // namespace

void weighted_rows_vnni(const PlaneRows& x, const PackedRows& w, float* made) {
  if (x.bits == 8) return some_rows<Flipped, 8, 4>(x, w, made);
  if (x.is_in_planes()) return some_rows<InPlanes, 8, 4>(x, w, made);
  if (w.levels->flip) return some_rows<Unpacked<true>, 8, 4>(x, w, made);
  some_rows<Unpacked<false>, 8, 0>(x, w, made);
}

}  // namespace crumb::runtime
#else
namespace crumb::runtime {
void weighted_rows_vnni(const PlaneRows& x, const PackedRows& w, float* made) {
  weighted_rows_ref(x, w, made);
}
}  // namespace crumb::runtime
#endif
