// multiply_tiles() with AVX2: half of a tile's sixteen outputs at a time. The instruction set is named
// function by function, so that nothing inline of the standard library is compiled for it.
#include "formats/number/tiles.h"
#include "runtime/exact/coded_tiles.h"
#include "runtime/exact/term_products.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define CRUMB_AVX2 __attribute__((target("avx2,fma")))
#define CRUMB_INLINE CRUMB_AVX2 inline __attribute__((always_inline))

namespace crumb::runtime::exact {
namespace {

constexpr std::size_t kRows = kTileRows, kHalf = kRows / 2, kCols = kTileCols, kLine = kTileLine;

/// Half of the line of a field of so many bits that has a column, shifted so that its field comes to bit
/// `to`.
CRUMB_INLINE __m256i field(const std::uint8_t* lines, int width, std::size_t column, int to) {
  const std::size_t in_line = 32 / static_cast<std::size_t>(width);
  const std::size_t of_line = column % in_line;
  const int from = static_cast<int>(8 * (of_line % 4)) + width * static_cast<int>(of_line / 4);
  const __m256i line = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lines + column / in_line * kLine));
  return from >= to ? _mm256_srli_epi32(line, from - to) : _mm256_slli_epi32(line, to - from);
}

/// Codes of up to four bits, by tables of eight values.
template <int Bits>
struct Narrow {
  static constexpr std::size_t kTile = kLine * Bits;
  __m256 low, high;  ///< of codes below 8, and of the others

  CRUMB_INLINE explicit Narrow(const CodedTiles& w) {
    alignas(32) float all[2 * kHalf];
    for (int i = 0; i < 16; ++i) all[i] = w.values[i & ((1 << Bits) - 1)];
    low = _mm256_load_ps(all);
    high = _mm256_load_ps(all + kHalf);
  }
  CRUMB_INLINE __m256 values(const std::uint8_t* tile, std::size_t column) const {
    __m256i codes = field(tile, Bits == 3 ? 2 : Bits, column, 0);
    if constexpr (Bits == 3)
      codes = _mm256_or_si256(_mm256_and_si256(codes, _mm256_set1_epi32(3)),
                              _mm256_and_si256(field(tile + 2 * kLine, 1, column, 2), _mm256_set1_epi32(4)));
    const __m256 value = _mm256_permutevar8x32_ps(low, codes);
    if constexpr (Bits < 4) return value;
    const __m256 upper = _mm256_castsi256_ps(_mm256_slli_epi32(codes, 28));  // the fourth bit as the sign
    return _mm256_blendv_ps(value, _mm256_permutevar8x32_ps(high, codes), upper);
  }
};

#include "runtime/exact/float_bytes_avx2.inc"

using ByteKind = ByteValues::Kind;

/// Codes of eight bits, by conversion.
template <ByteKind kBytes>
struct Bytes {
  static constexpr std::size_t kTile = kLine * 8;
  __m256 offset;
  FloatBytes floats;

  CRUMB_INLINE explicit Bytes(const CodedTiles& w)
      : offset(_mm256_set1_ps(w.bytes.offset)), floats(w.bytes, w.values) {}
  CRUMB_INLINE __m256 values(const std::uint8_t* tile, std::size_t column) const {
    const __m256i line = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(tile + column / 4 * kLine));
    const __m256i top = _mm256_slli_epi32(line, static_cast<int>(24 - 8 * (column % 4)));
    const __m256i code =
        kBytes == ByteKind::kSigned ? _mm256_srai_epi32(top, 24) : _mm256_srli_epi32(top, 24);
    if constexpr (kBytes == ByteKind::kFloat) return floats.of(code);
    return _mm256_add_ps(_mm256_cvtepi32_ps(code), offset);
  }
};

CRUMB_INLINE __m256 scaled(__m256 values, __m256 scale, const float* zeros, bool adds) {
  if (!zeros) return _mm256_mul_ps(values, scale);
  const __m256 zero = _mm256_loadu_ps(zeros);
  if (adds) return _mm256_add_ps(_mm256_mul_ps(values, scale), zero);
  return _mm256_mul_ps(_mm256_sub_ps(values, zero), scale);
}

/// Partial sums [First, First + Sums) of eight outputs, over all terms, to made[m][sum][output].
template <class Codes, std::size_t M, std::size_t Sums, std::size_t First>
CRUMB_AVX2 void partial_sums(const Products& p, const CodedTiles& w, const Codes& codes, std::size_t row,
                             std::size_t half, float (*made)[kPartialSums][kRows]) {
  const std::size_t blocks = (p.terms + w.block - 1) / w.block;
  const float* scales = w.scales + row * blocks * kRows + half * kHalf;
  const float* zeros = w.zeros ? w.zeros + row * blocks * kRows + half * kHalf : nullptr;
  const std::uint8_t* tile = w.codes + row * w.row_bytes + half * (kLine / 2);
  __m256 sums[M][Sums];
  for (auto& of_row : sums)
    for (__m256& sum : of_row) sum = _mm256_setzero_ps();
  const bool are_halves = w.block == kCols / 2 && w.block < p.terms;  // of tiles; else blocks are whole ones
  const std::size_t length = are_halves ? kCols : w.block;
  for (std::size_t b = 0, k = 0; b < blocks; b += are_halves ? 2 : 1) {
    const std::size_t second = are_halves && b + 1 < blocks ? b + 1 : b;
    const __m256 scale[2] = {_mm256_loadu_ps(scales + b * kRows), _mm256_loadu_ps(scales + second * kRows)};
    const float* const zero[2] = {zeros ? zeros + b * kRows : nullptr,
                                  zeros ? zeros + second * kRows : nullptr};
    const std::size_t end = p.terms - k < length ? p.terms : k + length;
    for (; k < end; k += kCols, tile += Codes::kTile) {
      if (First == 0 && half == 0) {
        for (std::size_t line = 0; line < Codes::kTile; line += kLine)
          _mm_prefetch(reinterpret_cast<const char*>(tile + 1024 + line), _MM_HINT_T0);
      }
      const bool is_whole = k + kCols <= end;
#pragma GCC unroll 2
      for (std::size_t part = 0; part < 2; ++part) {
#pragma GCC unroll 8
        for (std::size_t i = 0; i < Sums; ++i) {
          const std::size_t column = part * kPartialSums + First + i;
          if (!is_whole && k + column >= end) continue;
          const __m256 values = scaled(codes.values(tile, column), scale[part], zero[part], w.adds_zeros);
          for (std::size_t m = 0; m < M; ++m)
            sums[m][i] =
                _mm256_fmadd_ps(_mm256_broadcast_ss(p.x + m * p.x_stride + k + column), values, sums[m][i]);
        }
      }
    }
    k = end;
  }
  for (std::size_t m = 0; m < M; ++m)
    for (std::size_t i = 0; i < Sums; ++i) _mm256_storeu_ps(made[m][First + i] + half * kHalf, sums[m][i]);
}

template <class Codes, std::size_t M, std::size_t First = 0>
CRUMB_AVX2 void all_sums(const Products& p, const CodedTiles& w, const Codes& codes, std::size_t row,
                         std::size_t half, float (*made)[kPartialSums][kRows]) {
  constexpr std::size_t kSums = 8 / M;
  partial_sums<Codes, M, kSums, First>(p, w, codes, row, half, made);
  if constexpr (First + kSums < kPartialSums) all_sums<Codes, M, First + kSums>(p, w, codes, row, half, made);
}

template <class Codes, std::size_t M>
CRUMB_AVX2 void all_rows(const Products& p, const CodedTiles& w) {
  const Codes codes(w);
  alignas(32) float made[M][kPartialSums][kRows];
  for (std::size_t n = 0; n < p.columns; n += kRows) {
    const std::size_t count = p.columns - n < kRows ? p.columns - n : kRows;
    for (std::size_t half = 0; half * kHalf < count; ++half)
      all_sums<Codes, M>(p, w, codes, n / kRows, half, made);
    for (std::size_t m = 0; m < M; ++m) {
      for (std::size_t step = kPartialSums / 2; step > 0; step /= 2) {  // as fold() does
        for (std::size_t i = 0; i < step; ++i)
          for (std::size_t o = 0; o < count; ++o) made[m][i][o] += made[m][i + step][o];
      }
      for (std::size_t o = 0; o < count; ++o) p.y[m * p.y_row + (n + o) * p.y_column] = made[m][0][o];
    }
  }
}

template <class Codes>
void some_rows(const Products& p, const CodedTiles& w) {
  for (std::size_t m = 0; m < p.rows; ++m) all_rows<Codes, 1>(some_rows_of(p, m, 1), w);
}

/// Term k of partial sum i = k mod 16 goes behind those before it: terms of a partial sum lie together.
template <class Codes>
CRUMB_AVX2 void all_terms(const CodedTiles& w, std::size_t terms, float* to, std::size_t stride) {
  const Codes codes(w);
  for (std::size_t output = 0; output < kRows; output += kHalf) {
    float* next[kPartialSums];
    for (std::size_t i = 0; i < kPartialSums; ++i) next[i] = to + panel_row(i, terms) * stride + output;
    const std::uint8_t* tile = w.codes + output * 4;
    for (std::size_t k = 0; k < terms; k += kCols, tile += Codes::kTile) {
#pragma GCC unroll 1
      for (std::size_t half = 0; half < 2; ++half) {
        const std::size_t first = k + half * kPartialSums;
        if (first >= terms) break;
        const std::size_t slot = first / w.block * kRows + output;
        const __m256 scale = _mm256_loadu_ps(w.scales + slot);
        const float* const zero = w.zeros ? w.zeros + slot : nullptr;
#pragma GCC unroll 1
        for (std::size_t i = 0; i < kPartialSums; ++i) {
          if (first + i >= terms) break;
          const __m256 values = codes.values(tile, half * kPartialSums + i);
          _mm256_storeu_ps(next[i], scaled(values, scale, zero, w.adds_zeros));
          next[i] += stride;
        }
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
    default: break;
  }
  if (w.bytes.kind == ByteKind::kSigned) return call.template operator()<Bytes<ByteKind::kSigned>>();
  if (w.bytes.kind == ByteKind::kUnsigned) return call.template operator()<Bytes<ByteKind::kUnsigned>>();
  call.template operator()<Bytes<ByteKind::kFloat>>();
}

}  // namespace

void multiply_tiles_avx2(const Products& p, const CodedTiles& w) {
  if (p.terms == 0) return multiply_tiles_ref(p, w);
  switch (w.bits) {
    case 1: return some_rows<Narrow<1>>(p, w);
    case 2: return some_rows<Narrow<2>>(p, w);
    case 3: return some_rows<Narrow<3>>(p, w);
    case 4: return some_rows<Narrow<4>>(p, w);
    default: break;
  }
  if (w.bytes.kind == ByteKind::kSigned) return some_rows<Bytes<ByteKind::kSigned>>(p, w);
  if (w.bytes.kind == ByteKind::kUnsigned) return some_rows<Bytes<ByteKind::kUnsigned>>(p, w);
  some_rows<Bytes<ByteKind::kFloat>>(p, w);
}

void decode_terms_avx2(const CodedTiles& w, std::size_t terms, float* to, std::size_t stride) {
  with_codes(w, [&]<class Codes>() { all_terms<Codes>(w, terms, to, stride); });
}

}  // namespace crumb::runtime::exact

#else

namespace crumb::runtime::exact {
void multiply_tiles_avx2(const Products& products, const CodedTiles& w) { multiply_tiles_ref(products, w); }
void decode_terms_avx2(const CodedTiles& w, std::size_t terms, float* to, std::size_t stride) {
  decode_terms_ref(w, terms, to, stride);
}
}  // namespace crumb::runtime::exact

#endif
