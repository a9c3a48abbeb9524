// multiply_codes() with AVX-512: sixteen codes become sixteen terms, one for each partial sum. The
// instruction set is named function by function, so that nothing inline of the standard library is compiled
// for it.
#include "runtime/exact/coded_products.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#define CRUMB_AVX512 __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")))
#define CRUMB_INLINE CRUMB_AVX512 inline __attribute__((always_inline))

namespace crumb::runtime::exact {
namespace {

constexpr __mmask16 kAll = 0xFFFF;  // GCC 12 takes the forms without a mask for reads of nothing
// Where the next rows' codes are fetched from meanwhile: the same terms of the next rows, or of long rows the
// terms behind.
constexpr std::size_t kNear = std::size_t{16} << 10, kAhead = std::size_t{2} << 10;
constexpr std::size_t kBuffer = 32;  // of the last codes, where 16 bytes may not be read

/// Where the codes of 16 terms are in the 16 bytes that are read for them, to be put into the low bits of 32.
struct Places {
  __m512i bytes, shifts;
};

/// Lane i gets the two bytes in which code i of `bits` bits begins, and how far it is to be shifted then.
CRUMB_AVX512 Places places_of(int bits) {
  alignas(64) std::uint8_t bytes[64];
  alignas(64) std::int32_t shifts[16];
  for (int i = 0; i < 16; ++i) {
    const int bit = i * bits;
    for (int b = 0; b < 4; ++b)
      bytes[4 * i + b] = static_cast<std::uint8_t>(b < 2 && bit / 8 + b < 16 ? bit / 8 + b : 0x80);
    shifts[i] = bits <= 2 ? bit : bit % 8;  // the narrow ones are in every lane whole
  }
  return {_mm512_load_si512(bytes), _mm512_load_si512(shifts)};
}

/// The codes of 16 terms in lanes; above them, what lies behind them.
template <int Bits>
CRUMB_INLINE __m512i unpack(const std::uint8_t* from, const Places& places) {
  if constexpr (Bits <= 2) {
    std::int32_t word;
    std::memcpy(&word, from, sizeof word);
    return _mm512_maskz_srlv_epi32(kAll, _mm512_set1_epi32(word), places.shifts);
  } else {
    const __m512i four =
        _mm512_maskz_broadcast_i32x4(kAll, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    return _mm512_maskz_srlv_epi32(kAll, _mm512_shuffle_epi8(four, places.bytes), places.shifts);
  }
}

/// What codes stand for, in a block.
template <int Bits>
struct Table {
  static constexpr int kParts = Bits <= 4 ? 1 : 1 << (Bits - 4);
  __m512 parts[kParts];
};

template <int Bits>
CRUMB_INLINE __m512 look_up(const Table<Bits>& table, __m512i codes) {
  if constexpr (Bits <= 4) {
    return _mm512_maskz_permutexvar_ps(kAll, codes, table.parts[0]);
  } else if constexpr (Bits == 5) {
    return _mm512_permutex2var_ps(table.parts[0], codes, table.parts[1]);
  } else {
    const __mmask16 upper = _mm512_test_epi32_mask(codes, _mm512_set1_epi32(32));
    return _mm512_mask_mov_ps(_mm512_permutex2var_ps(table.parts[0], codes, table.parts[1]), upper,
                              _mm512_permutex2var_ps(table.parts[2], codes, table.parts[3]));
  }
}

/// The values of all codes, narrow ones again and again: the bits above a code are of other codes.
template <int Bits>
CRUMB_INLINE Table<Bits> unscaled(const float* values) {
  alignas(64) float all[16 * Table<Bits>::kParts];
  for (int i = 0; i < 16 * Table<Bits>::kParts; ++i) all[i] = values[i & ((1 << Bits) - 1)];
  Table<Bits> table;
  for (int i = 0; i < Table<Bits>::kParts; ++i) table.parts[i] = _mm512_load_ps(all + 16 * i);
  return table;
}

CRUMB_INLINE __m512 scaled(__m512 values, const CodedRows& w, std::size_t block) {
  const __m512 scale = _mm512_set1_ps(w.scales[block]);
  if (!w.zeros) return _mm512_mul_ps(values, scale);
  const __m512 zero = _mm512_set1_ps(w.zeros[block]);
  // As two steps: nothing here is compiled with contraction.
  if (w.adds_zeros) return _mm512_add_ps(_mm512_mul_ps(values, scale), zero);
  return _mm512_mul_ps(_mm512_sub_ps(values, zero), scale);
}

/// Codes of up to six bits, by tables.
template <int Bits>
struct Narrow {
  using Block = Table<Bits>;
  static constexpr std::size_t kStep = 2 * Bits;  // bytes of 16 codes
  static constexpr std::size_t kRead = Bits <= 2 ? 4 : 16;

  Places places;
  Table<Bits> table;

  CRUMB_INLINE explicit Narrow(const CodedRows& w)
      : places(places_of(Bits)), table(unscaled<Bits>(w.values)) {}
  CRUMB_INLINE Block block(const CodedRows& w, std::size_t index) const {
    Block made;
    for (int i = 0; i < Table<Bits>::kParts; ++i) made.parts[i] = scaled(table.parts[i], w, index);
    return made;
  }
  CRUMB_INLINE __m512 values(const std::uint8_t* from, const Block& block) const {
    return look_up<Bits>(block, unpack<Bits>(from, places));
  }
};

#include "runtime/exact/float_bytes_avx512.inc"

using ByteKind = ByteValues::Kind;

/// Codes of eight bits, by conversion.
template <ByteKind kBytes, bool kHasZeros>
struct Bytes {
  struct Block {
    __m512 scale, less, more;  ///< one of the last two is 0, so that both kinds of zero points are one kernel
    __mmask16 adds;
  };
  static constexpr std::size_t kStep = 16, kRead = 16;

  __m512 offset;
  FloatBytes floats;

  CRUMB_INLINE explicit Bytes(const CodedRows& w)
      : offset(_mm512_set1_ps(w.bytes.offset)), floats(w.bytes, w.values) {}
  CRUMB_INLINE Block block(const CodedRows& w, std::size_t index) const {
    const __m512 scale = _mm512_set1_ps(w.scales[index]), none = _mm512_setzero_ps();
    if constexpr (!kHasZeros) return {scale, none, none, 0};
    const __m512 zero = _mm512_set1_ps(w.zeros[index]);
    return {scale, w.adds_zeros ? none : zero, zero, static_cast<__mmask16>(w.adds_zeros ? kAll : 0)};
  }
  CRUMB_INLINE __m512 unscaled_values(__m128i codes) const {
    if constexpr (kBytes == ByteKind::kFloat) return floats.of(_mm512_maskz_cvtepu8_epi32(kAll, codes));
    const __m512i wide = kBytes == ByteKind::kSigned ? _mm512_maskz_cvtepi8_epi32(kAll, codes)
                                                     : _mm512_maskz_cvtepu8_epi32(kAll, codes);
    return _mm512_add_ps(_mm512_maskz_cvtepi32_ps(kAll, wide), offset);
  }
  CRUMB_INLINE __m512 values(const std::uint8_t* from, const Block& block) const {
    const __m512 value = unscaled_values(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    if constexpr (!kHasZeros) return _mm512_mul_ps(value, block.scale);
    const __m512 product = _mm512_mul_ps(_mm512_sub_ps(value, block.less), block.scale);
    return _mm512_mask_add_ps(product, block.adds, product, block.more);
  }
};

/// The sum of sixteen parts in the order of fold().
CRUMB_INLINE float folded(__m512 sums) {
  sums = _mm512_add_ps(sums, _mm512_maskz_shuffle_f32x4(kAll, sums, sums, 0xEE));
  sums = _mm512_add_ps(sums, _mm512_maskz_shuffle_f32x4(kAll, sums, sums, 0x01));
  sums = _mm512_add_ps(sums, _mm512_maskz_permute_ps(kAll, sums, 0xEE));
  sums = _mm512_add_ps(sums, _mm512_maskz_permute_ps(kAll, sums, 0x55));
  return _mm512_cvtss_f32(sums);
}

/// R rows of codes from n on, M rows of x.
template <class Codes, std::size_t R, std::size_t M>
CRUMB_AVX512 void rows(const Products& p, const CodedRows& w, const Codes& codes, std::size_t n) {
  const std::size_t blocks = (p.terms + w.block - 1) / w.block;
  const std::uint8_t* const from = w.codes + n * w.row_bytes;
  // Sixteens of terms whose codes may be read as vectors of the last row; the others are copied first.
  const auto readable = static_cast<std::size_t>(w.end - from - (R - 1) * w.row_bytes);
  const std::size_t safe = readable < Codes::kRead ? 0 : (readable - Codes::kRead) / Codes::kStep + 1;
  const std::size_t whole = p.terms / kPartialSums, fast = safe < whole ? safe : whole;
  const std::size_t steps_each = w.block / kPartialSums;
  const std::size_t ahead = R * w.row_bytes <= kNear ? R * w.row_bytes : kAhead;
  __m512 sums[R][M];
  for (auto& row : sums)
    for (__m512& sum : row) sum = _mm512_setzero_ps();
  std::size_t step = 0;
  for (std::size_t b = 0; b < blocks; ++b) {
    typename Codes::Block block[R];
    for (std::size_t r = 0; r < R; ++r) block[r] = codes.block(w, (n + r) * blocks + b);
    const std::size_t end = b + 1 == blocks ? (p.terms + kPartialSums - 1) / kPartialSums : step + steps_each;
    for (const std::size_t stop = end < fast ? end : fast; step < stop; ++step) {
      __m512 x[M];
      for (std::size_t m = 0; m < M; ++m) x[m] = _mm512_loadu_ps(p.x + m * p.x_stride + step * kPartialSums);
      for (std::size_t r = 0; r < R; ++r) {
        const std::uint8_t* const row = from + r * w.row_bytes + step * Codes::kStep;
        _mm_prefetch(reinterpret_cast<const char*>(row + ahead), _MM_HINT_T0);
        const __m512 values = codes.values(row, block[r]);
        for (std::size_t m = 0; m < M; ++m) sums[r][m] = _mm512_fmadd_ps(x[m], values, sums[r][m]);
      }
    }
    for (; step < end; ++step) {
      const std::size_t left = p.terms - step * kPartialSums, at = step * Codes::kStep;
      const auto mask = static_cast<__mmask16>(left < kPartialSums ? (1U << left) - 1 : 0xFFFF);
      for (std::size_t r = 0; r < R; ++r) {
        std::uint8_t buffer[kBuffer] = {};
        const std::size_t bytes = w.row_bytes - at < Codes::kStep ? w.row_bytes - at : Codes::kStep;
        std::memcpy(buffer, from + r * w.row_bytes + at, bytes);
        const __m512 values = _mm512_maskz_mov_ps(mask, codes.values(buffer, block[r]));  // zeros fill up
        for (std::size_t m = 0; m < M; ++m)
          sums[r][m] = _mm512_fmadd_ps(
              _mm512_maskz_loadu_ps(mask, p.x + m * p.x_stride + step * kPartialSums), values, sums[r][m]);
      }
    }
  }
  for (std::size_t r = 0; r < R; ++r)
    for (std::size_t m = 0; m < M; ++m) p.y[m * p.y_row + (n + r) * p.y_column] = folded(sums[r][m]);
}

template <class Codes, std::size_t R, std::size_t M>
CRUMB_AVX512 void all_rows(const Products& p, const CodedRows& w) {
  const Codes codes(w);
  std::size_t n = 0;
  for (; n + R <= p.columns; n += R) rows<Codes, R, M>(p, w, codes, n);
  for (; n < p.columns; ++n) rows<Codes, 1, M>(p, w, codes, n);
}

template <class Codes, std::size_t R>
void some_rows(const Products& p, const CodedRows& w) {
  static_assert(kFewRows == 4);
  switch (p.rows) {
    case 1: return all_rows<Codes, R, 1>(p, w);
    case 2: return all_rows<Codes, R, 2>(p, w);
    case 4: return all_rows<Codes, R, 4>(p, w);
    default: break;
  }
  all_rows<Codes, R, 2>(some_rows_of(p, 0, 2), w);
  all_rows<Codes, R, 1>(some_rows_of(p, 2, 1), w);
}

template <ByteKind kBytes>
void bytes(const Products& p, const CodedRows& w) {
  constexpr std::size_t kRows = kBytes == ByteKind::kFloat ? 2 : 4;
  if (w.zeros) return some_rows<Bytes<kBytes, true>, kRows>(p, w);
  some_rows<Bytes<kBytes, false>, kRows>(p, w);
}

}  // namespace

void multiply_codes_avx512(const Products& p, const CodedRows& w) {
  if (p.terms == 0) return multiply_codes_ref(p, w);
  switch (w.bits) {
    case 1: return some_rows<Narrow<1>, 4>(p, w);
    case 2: return some_rows<Narrow<2>, 4>(p, w);
    case 3: return some_rows<Narrow<3>, 4>(p, w);
    case 4: return some_rows<Narrow<4>, 4>(p, w);
    case 5: return some_rows<Narrow<5>, 2>(p, w);
    case 6: return some_rows<Narrow<6>, 2>(p, w);
    default: break;
  }
  if (w.bytes.kind == ByteKind::kSigned) return bytes<ByteKind::kSigned>(p, w);
  if (w.bytes.kind == ByteKind::kUnsigned) return bytes<ByteKind::kUnsigned>(p, w);
  bytes<ByteKind::kFloat>(p, w);
}

}  // namespace crumb::runtime::exact

#else

namespace crumb::runtime::exact {
void multiply_codes_avx512(const Products& products, const CodedRows& w) { multiply_codes_ref(products, w); }
}  // namespace crumb::runtime::exact

#endif
