// weighted_rows() with AVX2.
//
// vpmaddubsw adds two products in 16 bits, where products of a few planes are added as long as they fit. Of
// bytes too wide for that 128 is subtracted: magnitudes and q with their signs make at most 2 * 128 * 127 =
// 32,512, and 128 times the sum of q is added behind. The instruction set is named function by function, so
// that nothing inline of the standard library is compiled for it.
#include "runtime/fast/row_sums.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#define CRUMB_KERNEL __attribute__((target("avx2")))
#define CRUMB_INLINE CRUMB_KERNEL inline __attribute__((always_inline))

namespace crumb::runtime {
namespace {

#include "runtime/fast/row_chunks.inc"

constexpr std::size_t kHalf = kChunkBytes / 2, kLanes = 8;

CRUMB_INLINE __m256i load(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
CRUMB_INLINE void store(void* to, __m256i value) { _mm256_storeu_si256(static_cast<__m256i*>(to), value); }
CRUMB_INLINE __m256i bytes_of(int byte) { return _mm256_set1_epi8(static_cast<char>(byte)); }

/// Of codes of so many bits, 8 / bits planes of bytes up to `bits` times this, times 127 twice, fit 16 bits.
constexpr int kMostPlane = 32767 / (2 * 127 * 8);

/// Sixteen levels, again and again.
CRUMB_INLINE __m256i sixteen_levels(const LevelCodes& levels, std::size_t first) {
  return _mm256_broadcastsi128_si256(
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(levels.above.data() + first)));
}

/// Codes of 1, 2 or 4 bits, in planes of 32 bytes.
template <bool kWide>
struct InPlanes {
  static constexpr bool kIsWide = kWide;
  static constexpr std::size_t kRead = kHalf;  // bytes that are read for half a chunk
  __m256i table, mask;
  __m128i bits;
  int count;

  CRUMB_INLINE explicit InPlanes(const LevelCodes& levels)
      : table(sixteen_levels(levels, 0)),
        mask(bytes_of((1 << levels.bits) - 1)),
        bits(_mm_cvtsi32_si128(levels.bits)),
        count(8 / levels.bits) {}
  CRUMB_INLINE int planes() const { return count; }
  CRUMB_INLINE __m256i prepared(const std::uint8_t* from) const { return load(from); }
  /// The bytes `above` of the first plane.
  CRUMB_INLINE __m256i above(__m256i bytes) const {
    return _mm256_shuffle_epi8(table, _mm256_and_si256(bytes, mask));
  }
  /// Where the next plane is the first one.
  CRUMB_INLINE __m256i next(__m256i bytes) const { return _mm256_srl_epi32(bytes, bits); }
};

/// Codes that become bytes `above` at once.
struct OnePlane {
  static constexpr int planes() { return 1; }
  CRUMB_INLINE __m256i above(__m256i bytes) const { return bytes; }
  CRUMB_INLINE __m256i next(__m256i bytes) const { return bytes; }
};

/// Codes of eight bits, from which bytes differ in one bit.
struct Flipped : OnePlane {
  static constexpr bool kIsWide = true;
  static constexpr std::size_t kRead = kHalf;
  __m256i flip;
  CRUMB_INLINE explicit Flipped(const LevelCodes& levels) : flip(bytes_of(levels.flip.value_or(0))) {}
  CRUMB_INLINE __m256i prepared(const std::uint8_t* from) const { return _mm256_xor_si256(load(from), flip); }
};

/// Codes of 3, 5, 6 or 7 bits, to bytes that differ from them in one bit, or by a table of 64 codes. Of 16
/// bytes with 16 codes a shuffle brings two to each even code and two to each odd one; products with powers
/// of two bring the codes to the high byte.
template <bool kFlips>
struct Unpacked : OnePlane {
  static constexpr bool kIsWide = false;
  static constexpr int kParts = kFlips ? 1 : 4;
  static constexpr std::size_t kRead = 14 + 16;  // bytes at most
  __m256i even, odd, of_even, of_odd, mask;
  __m256i table[kParts];
  std::size_t sixteen;  ///< bytes of 16 codes

  CRUMB_INLINE explicit Unpacked(const LevelCodes& levels)
      : mask(bytes_of((1 << levels.bits) - 1)), sixteen(2 * static_cast<std::size_t>(levels.bits)) {
    alignas(32) std::uint8_t bytes[2][32];
    alignas(32) std::uint16_t factors[2][16];
    for (int i = 0; i < 32; ++i) {
      const int bit = i % 16 * levels.bits, word = i / 2 % 8 + i / 16 * 8;
      bytes[i % 2][2 * word] = static_cast<std::uint8_t>(bit / 8);
      bytes[i % 2][2 * word + 1] = static_cast<std::uint8_t>(bit / 8 + 1);
      factors[i % 2][word] = static_cast<std::uint16_t>(1 << (8 - bit % 8));
    }
    even = load(bytes[0]), odd = load(bytes[1]);
    of_even = load(factors[0]), of_odd = load(factors[1]);
    for (int i = 0; i < kParts; ++i)
      table[i] = kFlips ? bytes_of(levels.flip.value_or(0))
                        : sixteen_levels(levels, 16 * static_cast<std::size_t>(i));
  }
  CRUMB_INLINE __m256i prepared(const std::uint8_t* from) const {
    const __m256i both = _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))),
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + sixteen)), 1);
    const __m256i low = _mm256_srli_epi16(_mm256_mullo_epi16(_mm256_shuffle_epi8(both, even), of_even), 8);
    const __m256i high = _mm256_mullo_epi16(_mm256_shuffle_epi8(both, odd), of_odd);
    const __m256i kept = _mm256_andnot_si256(_mm256_set1_epi16(0xFF), high);
    const __m256i codes = _mm256_and_si256(_mm256_or_si256(low, kept), mask);
    if constexpr (kFlips) return _mm256_xor_si256(codes, table[0]);
    const __m256i in_part = _mm256_and_si256(codes, bytes_of(15));
    const __m256i odd_part = _mm256_slli_epi16(codes, 3), upper_part = _mm256_slli_epi16(codes, 2);
    const __m256i lower = _mm256_blendv_epi8(_mm256_shuffle_epi8(table[0], in_part),
                                             _mm256_shuffle_epi8(table[kParts - 3], in_part), odd_part);
    const __m256i upper = _mm256_blendv_epi8(_mm256_shuffle_epi8(table[kParts - 2], in_part),
                                             _mm256_shuffle_epi8(table[kParts - 1], in_part), odd_part);
    return _mm256_blendv_epi8(lower, upper, upper_part);
  }
};

CRUMB_INLINE __m256i pairs_to_sums(__m256i pairs) { return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); }

/// The sum of four bytes `above` times q each; narrow ones are added in 16 bits first, of all planes.
template <bool kIsWide>
CRUMB_INLINE __m256i added(__m256i sum, __m256i above, __m256i terms) {
  if constexpr (!kIsWide) return _mm256_add_epi16(sum, _mm256_maddubs_epi16(above, terms));
  const __m256i centred = _mm256_xor_si256(above, _mm256_set1_epi8(-128));
  const __m256i products = _mm256_maddubs_epi16(_mm256_abs_epi8(centred), _mm256_sign_epi8(terms, centred));
  const __m256i q_pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), terms);  // 128 times it was left out
  const __m256i left_out = _mm256_madd_epi16(q_pairs, _mm256_set1_epi16(128));
  return _mm256_add_epi32(sum, _mm256_add_epi32(pairs_to_sums(products), left_out));
}

/// The bytes of half a chunk of a row, of which `left` are left; 32 bytes at `memory` hold a copy.
template <class Codes>
CRUMB_INLINE __m256i bytes_at(const Codes& codes, const std::uint8_t* from, std::ptrdiff_t left,
                              std::uint8_t* memory) {
  if (left < static_cast<std::ptrdiff_t>(Codes::kRead)) {
    store(memory, _mm256_setzero_si256());
    if (left > 0) std::memcpy(memory, from, static_cast<std::size_t>(left));
    from = memory;
  }
  return codes.prepared(from);
}

/// Of eight rows of eight lanes the sums of neighbours, kTogether at a time, each of all rows.
template <std::size_t kTogether>
CRUMB_INLINE void neighbours_of_half(const __m256i (&rows)[kLanes], __m256i* sums) {
  constexpr std::size_t kParts = kTogether >= 4 ? 1 : 4 / kTogether;  // of four lanes
  __m256i fours[2][kParts];                                           // of four rows each
#pragma GCC unroll 2
  for (std::size_t i = 0; i < 2; ++i) {
    const __m256i* const r = rows + 4 * i;
    const __m256i low01 = _mm256_unpacklo_epi32(r[0], r[1]), high01 = _mm256_unpackhi_epi32(r[0], r[1]);
    const __m256i low23 = _mm256_unpacklo_epi32(r[2], r[3]), high23 = _mm256_unpackhi_epi32(r[2], r[3]);
    if constexpr (kTogether >= 4) {
      const __m256i of01 = _mm256_add_epi32(low01, high01), of23 = _mm256_add_epi32(low23, high23);
      fours[i][0] = _mm256_add_epi32(_mm256_unpacklo_epi64(of01, of23), _mm256_unpackhi_epi64(of01, of23));
    } else {
      const __m256i lanes[4] = {_mm256_unpacklo_epi64(low01, low23), _mm256_unpackhi_epi64(low01, low23),
                                _mm256_unpacklo_epi64(high01, high23), _mm256_unpackhi_epi64(high01, high23)};
      for (std::size_t part = 0; part < kParts; ++part)
        fours[i][part] =
            kTogether == 1 ? lanes[part] : _mm256_add_epi32(lanes[2 * part % 4], lanes[2 * part % 4 + 1]);
    }
  }
#pragma GCC unroll 4
  for (std::size_t part = 0; part < kParts; ++part) {
    const __m256i first = _mm256_permute2x128_si256(fours[0][part], fours[1][part], 0x20);
    const __m256i second = _mm256_permute2x128_si256(fours[0][part], fours[1][part], 0x31);
    if constexpr (kTogether == 8) {
      sums[0] = _mm256_add_epi32(first, second);
    } else {
      sums[part] = first;
      sums[kParts + part] = second;
    }
  }
}

/// The same of sixteen lanes.
template <std::size_t kTogether>
CRUMB_INLINE void neighbours(const std::int32_t* lanes, __m256i (&sums)[kChunkLanes / kTogether]) {
  __m256i low[kLanes], high[kLanes];
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kLanes; ++r) {
    low[r] = load(lanes + r * kChunkLanes);
    high[r] = load(lanes + r * kChunkLanes + kLanes);
    if constexpr (kTogether == kChunkLanes) low[r] = _mm256_add_epi32(low[r], high[r]);
  }
  if constexpr (kTogether == kChunkLanes) {
    neighbours_of_half<kLanes>(low, sums);
  } else {
    neighbours_of_half<kTogether>(low, sums);
    neighbours_of_half<kTogether>(high, sums + kLanes / kTogether);
  }
}

/// Adds a group of chunks up: of M rows of x, and of rows [n, n + R) of weights.
template <class Codes, std::size_t R, std::size_t M>
CRUMB_INLINE void sums_of_group(const Codes& codes, const PackedRows& w, std::size_t n,
                                const GroupOfChunks& of, std::int32_t* lanes, std::size_t x_stride) {
  alignas(32) std::uint8_t memory[kHalf];
  for (std::size_t half = 0; half < 2; ++half, lanes += kLanes) {
    const std::int8_t* q = of.q + half * kHalf;
    for (std::size_t at = of.begin; at < of.end; at += of.step, q += kChunkBytes) {
      if (n == 0 && half == 0) fetch_next(w, at, of.step);
      const std::size_t from = at + half * of.step / 2;
      const auto left = static_cast<std::ptrdiff_t>(w.bytes) - static_cast<std::ptrdiff_t>(from);
      const std::uint8_t* row = w.codes + n * w.stride + from;
      __m256i bytes[R], parts[R][M];
#pragma GCC unroll 4
      for (std::size_t r = 0; r < R; ++r, row += w.stride) {
        bytes[r] = bytes_at(codes, row, left, memory);
#pragma GCC unroll 8
        for (__m256i& part : parts[r]) part = _mm256_setzero_si256();
      }
      for (int plane = codes.planes();; q += kChunkBytes) {
#pragma GCC unroll 4
        for (std::size_t r = 0; r < R; ++r) {
          const __m256i above = codes.above(bytes[r]);
#pragma GCC unroll 4
          for (std::size_t m = 0; m < M; ++m)
            parts[r][m] = added<Codes::kIsWide>(parts[r][m], above, load(q + m * of.q_stride));
          bytes[r] = codes.next(bytes[r]);
        }
        if (--plane == 0) break;
      }
#pragma GCC unroll 4
      for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (std::size_t m = 0; m < M; ++m) {
          std::int32_t* const to = lanes + m * x_stride + r * kChunkLanes;
          const __m256i sum = Codes::kIsWide ? parts[r][m] : pairs_to_sums(parts[r][m]);
          store(to, at == of.begin ? sum : _mm256_add_epi32(sum, load(to)));
        }
      }
    }
  }
}

#include "runtime/fast/row_sums.inc"

}  // namespace

void weighted_rows_avx2(const PlaneRows& x, const PackedRows& w, float* made) {
  if (x.bits == 8) return some_rows<Flipped, 4, 1>(x, w, made);
  if (x.is_in_planes() && w.levels->widest > kMostPlane * x.bits)
    return some_rows<InPlanes<true>, 4, 0>(x, w, made);
  if (x.is_in_planes()) return some_rows<InPlanes<false>, 4, 1>(x, w, made);
  if (w.levels->flip) return some_rows<Unpacked<true>, 4, 1>(x, w, made);
  some_rows<Unpacked<false>, 4, 0>(x, w, made);
}

}  // namespace crumb::runtime
#else
namespace crumb::runtime {
void weighted_rows_avx2(const PlaneRows& x, const PackedRows& w, float* made) {
  weighted_rows_ref(x, w, made);
}
}  // namespace crumb::runtime
#endif
