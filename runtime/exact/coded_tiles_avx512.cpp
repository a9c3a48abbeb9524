// multiply_tiles() with AVX-512. The instruction set is named function by function, so that nothing inline of
// the standard library is compiled for it.
#include "formats/number/tiles.h"
#include "runtime/exact/coded_tiles.h"
#include "runtime/exact/term_products.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define CRUMB_AVX512 __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")))
#define CRUMB_INLINE CRUMB_AVX512 inline __attribute__((always_inline))

namespace crumb::runtime::exact {
namespace {

constexpr std::size_t kRows = kTileRows, kCols = kTileCols, kLine = kTileLine;
constexpr std::size_t kAhead = 4096;  // bytes that are fetched meanwhile
constexpr __mmask16 kAll = 0xFFFF;    // GCC 12 takes the forms without a mask for reads of nothing

/// The line of a field of so many bits that has a column, shifted so that its field comes to bit `to`.
CRUMB_INLINE __m512i field(const std::uint8_t* lines, int width, std::size_t column, int to) {
  const std::size_t in_line = 32 / static_cast<std::size_t>(width);
  const std::size_t of_line = column % in_line;
  const int from = static_cast<int>(8 * (of_line % 4)) + width * static_cast<int>(of_line / 4);
  const __m512i line = _mm512_loadu_si512(lines + column / in_line * kLine);
  if (from >= to) return _mm512_maskz_srli_epi32(kAll, line, static_cast<unsigned>(from - to));
  return _mm512_maskz_slli_epi32(kAll, line, static_cast<unsigned>(to - from));
}

/// The codes of a column of a tile in the low bits of lanes; above them there may be anything.
template <int Bits>
CRUMB_INLINE __m512i codes_of(const std::uint8_t* tile, std::size_t column) {
  constexpr int kWide = Bits >= 4 ? 4 : Bits >= 2 ? 2 : 1;  // the first field
  const __m512i low = field(tile, kWide, column, 0);
  if constexpr (Bits == kWide) return low;
  const __m512i high = field(tile + kLine * kWide, Bits - kWide, column, kWide);
  return _mm512_ternarylogic_epi32(_mm512_set1_epi32((1 << kWide) - 1), low, high,
                                   0xCA);  // of which, which bits
}

/// Codes of up to six bits, by tables.
template <int Bits>
struct Narrow {
  static constexpr int kParts = Bits <= 4 ? 1 : 1 << (Bits - 4);
  __m512 table[kParts];

  CRUMB_INLINE explicit Narrow(const CodedTiles& w) {
    alignas(
        64) float all[16 * kParts];  // narrow ones again and again: the bits above a code are of other codes
    for (int i = 0; i < 16 * kParts; ++i) all[i] = w.values[i & ((1 << Bits) - 1)];
    for (int i = 0; i < kParts; ++i) table[i] = _mm512_load_ps(all + 16 * i);
  }
  CRUMB_INLINE __m512 values(const std::uint8_t* tile, std::size_t column) const {
    const __m512i codes = codes_of<Bits>(tile, column);
    if constexpr (Bits <= 4) {
      return _mm512_maskz_permutexvar_ps(kAll, codes, table[0]);
    } else if constexpr (Bits == 5) {
      return _mm512_permutex2var_ps(table[0], codes, table[1]);
    } else {
      const __mmask16 upper = _mm512_test_epi32_mask(codes, _mm512_set1_epi32(32));
      return _mm512_mask_mov_ps(_mm512_permutex2var_ps(table[0], codes, table[1]), upper,
                                _mm512_permutex2var_ps(table[2], codes, table[3]));
    }
  }
  static constexpr std::size_t kTile = kLine * Bits;
};

#include "runtime/exact/float_bytes_avx512.inc"

using ByteKind = ByteValues::Kind;

/// Codes of eight bits, by conversion.
template <ByteKind kBytes>
struct Bytes {
  __m512 offset;
  FloatBytes floats;

  CRUMB_INLINE explicit Bytes(const CodedTiles& w)
      : offset(_mm512_set1_ps(w.bytes.offset)), floats(w.bytes, w.values) {}
  CRUMB_INLINE __m512 values(const std::uint8_t* tile, std::size_t column) const {
    const __m512i line = _mm512_loadu_si512(tile + column / 4 * kLine);
    const __m512i top = _mm512_maskz_slli_epi32(kAll, line, static_cast<unsigned>(24 - 8 * (column % 4)));
    const __m512i code = kBytes == ByteKind::kSigned ? _mm512_maskz_srai_epi32(kAll, top, 24)
                                                     : _mm512_maskz_srli_epi32(kAll, top, 24);
    if constexpr (kBytes == ByteKind::kFloat) return floats.of(code);
    return _mm512_add_ps(_mm512_maskz_cvtepi32_ps(kAll, code), offset);
  }
  static constexpr std::size_t kTile = kLine * 8;
};

/// What zero points do: values less `less`, times the scale, plus `more` where mask says so. One of the two
/// is 0, so that both kinds are one kernel.
struct Zeros {
  __m512 less, more;
  __mmask16 adds;
};

template <bool kHasZeros>
CRUMB_INLINE Zeros zeros_at(const float* zeros, bool adds) {
  if constexpr (!kHasZeros) return {_mm512_setzero_ps(), _mm512_setzero_ps(), 0};
  const __m512 all = _mm512_loadu_ps(zeros);
  return {adds ? _mm512_setzero_ps() : all, all, static_cast<__mmask16>(adds ? kAll : 0)};
}

template <bool kHasZeros>
CRUMB_INLINE __m512 scaled(__m512 values, __m512 scale, const Zeros& zeros) {
  if constexpr (!kHasZeros) return _mm512_mul_ps(values, scale);
  const __m512 product = _mm512_mul_ps(_mm512_sub_ps(values, zeros.less), scale);
  return _mm512_mask_add_ps(product, zeros.adds, product, zeros.more);
}

/// Partial sums [first, first + Sums) of sixteen outputs, over all terms, to made[m][first + i], for M rows
/// of x. kHalves: blocks are half tiles; else whole ones.
template <class Codes, bool kHasZeros, std::size_t M, std::size_t Sums, bool kHalves>
CRUMB_AVX512 void partial_sums(const Products& p, const CodedTiles& w, const Codes& codes, std::size_t row,
                               std::size_t first, float (*made)[kPartialSums][kRows]) {
  const std::size_t blocks = (p.terms + w.block - 1) / w.block;
  const float* scales = w.scales + row * blocks * kRows;
  const float* zeros = kHasZeros ? w.zeros + row * blocks * kRows : nullptr;
  const std::uint8_t* tile = w.codes + row * w.row_bytes;
  __m512 sums[M][Sums];
  for (auto& of_row : sums)
    for (__m512& sum : of_row) sum = _mm512_setzero_ps();
  constexpr std::size_t kStep = kHalves ? 2 : 1;  // blocks of a tile
  const std::size_t length = kHalves ? kCols : w.block;
  for (std::size_t b = 0, k = 0; b < blocks; b += kStep) {
    __m512 scale[2];
    Zeros zero[2];
    for (std::size_t half = 0; half < 2; ++half) {
      const std::size_t of_half = kHalves && b + half < blocks ? b + half : b;
      scale[half] = _mm512_loadu_ps(scales + of_half * kRows);
      zero[half] = zeros_at<kHasZeros>(zeros + (kHasZeros ? of_half * kRows : 0), w.adds_zeros);
    }
    const std::size_t end = p.terms - k < length ? p.terms : k + length;
    for (; k + kCols <= end; k += kCols, tile += Codes::kTile) {
#pragma GCC unroll 8
      for (std::size_t line = 0; line < Codes::kTile; line += kLine)
        _mm_prefetch(reinterpret_cast<const char*>(tile + kAhead + line), _MM_HINT_T0);
#pragma GCC unroll 2
      for (std::size_t half = 0; half < 2; ++half) {
#pragma GCC unroll 16
        for (std::size_t i = 0; i < Sums; ++i) {
          const std::size_t column = half * kPartialSums + first + i;
          const __m512 values = scaled<kHasZeros>(codes.values(tile, column), scale[half], zero[half]);
          for (std::size_t m = 0; m < M; ++m)
            sums[m][i] =
                _mm512_fmadd_ps(_mm512_set1_ps(p.x[m * p.x_stride + k + column]), values, sums[m][i]);
        }
      }
    }
    if (k == end) continue;
#pragma GCC unroll 2
    for (std::size_t half = 0; half < 2; ++half) {  // the last tile
#pragma GCC unroll 16
      for (std::size_t i = 0; i < Sums; ++i) {
        const std::size_t column = half * kPartialSums + first + i;
        if (k + column >= end) continue;
        const __m512 values = scaled<kHasZeros>(codes.values(tile, column), scale[half], zero[half]);
        for (std::size_t m = 0; m < M; ++m)
          sums[m][i] = _mm512_fmadd_ps(_mm512_set1_ps(p.x[m * p.x_stride + k + column]), values, sums[m][i]);
      }
    }
    k = end;
  }
  for (std::size_t m = 0; m < M; ++m)
    for (std::size_t i = 0; i < Sums; ++i) _mm512_storeu_ps(made[m][first + i], sums[m][i]);
}

template <class Codes, bool kHasZeros, std::size_t M, bool kHalves = false>
CRUMB_AVX512 void all_rows(const Products& p, const CodedTiles& w) {
  constexpr std::size_t kSums = kPartialSums / M;
  const Codes codes(w);
  alignas(64) float made[M][kPartialSums][kRows];
  for (std::size_t n = 0; n < p.columns; n += kRows) {
    for (std::size_t first = 0; first < kPartialSums; first += kSums)
      partial_sums<Codes, kHasZeros, M, kSums, kHalves>(p, w, codes, n / kRows, first, made);
    const std::size_t count = p.columns - n < kRows ? p.columns - n : kRows;
    for (std::size_t m = 0; m < M; ++m) {
      for (std::size_t half = kPartialSums / 2; half > 0; half /= 2) {  // as fold() does
        for (std::size_t i = 0; i < half; ++i)
          _mm512_store_ps(made[m][i],
                          _mm512_add_ps(_mm512_load_ps(made[m][i]), _mm512_load_ps(made[m][i + half])));
      }
      for (std::size_t i = 0; i < count; ++i) p.y[m * p.y_row + (n + i) * p.y_column] = made[m][0][i];
    }
  }
}

template <class Codes, bool kHasZeros, bool kHalves = false>
void some_rows(const Products& p, const CodedTiles& w) {
  static_assert(kFewRows == 4);
  if constexpr (!kHasZeros) {  // with zeros few rows of x are rare: no code of their own
    if (p.rows == 4) return all_rows<Codes, kHasZeros, 4, kHalves>(p, w);
  }
  for (std::size_t m = 0; m < p.rows; ++m) all_rows<Codes, kHasZeros, 1, kHalves>(some_rows_of(p, m, 1), w);
}

template <class Codes>
void by_zeros(const Products& p, const CodedTiles& w) {
  if (w.zeros) return some_rows<Codes, true>(p, w);
  some_rows<Codes, false>(p, w);
}

/// Blocks of half a tile, which nvfp4 has.
bool are_halves(const Products& p, const CodedTiles& w) { return w.block == kCols / 2 && w.block < p.terms; }

/// Term k of partial sum i = k mod 16 goes behind those before it: terms of a partial sum lie together.
template <class Codes, bool kHasZeros>
CRUMB_AVX512 void all_terms(const CodedTiles& w, std::size_t terms, float* to, std::size_t stride) {
  const Codes codes(w);
  float* next[kPartialSums];
  for (std::size_t i = 0; i < kPartialSums; ++i) next[i] = to + panel_row(i, terms) * stride;
  const std::uint8_t* tile = w.codes;
  for (std::size_t k = 0; k < terms; k += kCols, tile += Codes::kTile) {
#pragma GCC unroll 1
    for (std::size_t half = 0; half < 2; ++half) {
      const std::size_t first = k + half * kPartialSums;
      if (first >= terms) break;
      const std::size_t slot = first / w.block * kRows;
      const __m512 scale = _mm512_loadu_ps(w.scales + slot);
      const Zeros zero = zeros_at<kHasZeros>(kHasZeros ? w.zeros + slot : nullptr, w.adds_zeros);
#pragma GCC unroll 1
      for (std::size_t i = 0; i < kPartialSums; ++i) {
        if (first + i >= terms) break;
        const __m512 values = codes.values(tile, half * kPartialSums + i);
        _mm512_storeu_ps(next[i], scaled<kHasZeros>(values, scale, zero));
        next[i] += stride;
      }
    }
  }
}

/// Calls with the type that takes such codes.
template <class Call>
void with_codes(const CodedTiles& w, const Call& call) {
  switch (w.bits) {
    case 1: return call.template operator()<Narrow<1>>();
    case 2: return call.template operator()<Narrow<2>>();
    case 3: return call.template operator()<Narrow<3>>();
    case 4: return call.template operator()<Narrow<4>>();
    case 5: return call.template operator()<Narrow<5>>();
    case 6: return call.template operator()<Narrow<6>>();
    default: break;
  }
  if (w.bytes.kind == ByteKind::kSigned) return call.template operator()<Bytes<ByteKind::kSigned>>();
  if (w.bytes.kind == ByteKind::kUnsigned) return call.template operator()<Bytes<ByteKind::kUnsigned>>();
  call.template operator()<Bytes<ByteKind::kFloat>>();
}

}  // namespace

void multiply_tiles_avx512(const Products& p, const CodedTiles& w) {
  if (p.terms == 0) return multiply_tiles_ref(p, w);
  if (are_halves(p, w)) return some_rows<Narrow<4>, false, true>(p, w);
  with_codes(w, [&]<class Codes>() { by_zeros<Codes>(p, w); });
}

void decode_terms_avx512(const CodedTiles& w, std::size_t terms, float* to, std::size_t stride) {
  with_codes(w, [&]<class Codes>() {
    if (w.zeros) return all_terms<Codes, true>(w, terms, to, stride);
    all_terms<Codes, false>(w, terms, to, stride);
  });
}

}  // namespace crumb::runtime::exact

#else

namespace crumb::runtime::exact {
void multiply_tiles_avx512(const Products& products, const CodedTiles& w) { multiply_tiles_ref(products, w); }
void decode_terms_avx512(const CodedTiles& w, std::size_t terms, float* to, std::size_t stride) {
  decode_terms_ref(w, terms, to, stride);
}
}  // namespace crumb::runtime::exact

#endif
