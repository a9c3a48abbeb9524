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

constexpr std::size_t kSums = 8;  // partial sums in registers
constexpr std::size_t kRows = kTileRows, kHalf = kRows / 2, kCols = kTileCols, kLine = kTileLine;
constexpr std::size_t kAhead = 4096;  // bytes that are fetched meanwhile

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

/// Of codes of eight bits, the line that has a column.
CRUMB_INLINE __m256i line_of(const std::uint8_t* tile, std::size_t column) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(tile + column / 4 * kLine));
}

/// Codes of eight bits that are integers. Ones without a sign are read with one, as 128 less.
struct Integers {
  static constexpr std::size_t kTile = kLine * 8;
  __m256i flip;
  __m256 offset;

  CRUMB_INLINE explicit Integers(const CodedTiles& w) {
    const bool has_sign = w.bytes.kind == ByteKind::kSigned;
    flip = _mm256_set1_epi32(has_sign ? 0 : static_cast<std::int32_t>(0x80000000U));
    offset = _mm256_set1_ps(w.bytes.offset + (has_sign ? 0.0F : 128.0F));
  }
  CRUMB_INLINE __m256 values(const std::uint8_t* tile, std::size_t column) const {
    const __m256i top = _mm256_slli_epi32(line_of(tile, column), static_cast<int>(24 - 8 * (column % 4)));
    const __m256i code = _mm256_srai_epi32(_mm256_xor_si256(top, flip), 24);
    return _mm256_add_ps(_mm256_cvtepi32_ps(code), offset);
  }
};

/// Floats of eight bits.
struct Floats {
  static constexpr std::size_t kTile = kLine * 8;
  FloatBytes floats;

  CRUMB_INLINE explicit Floats(const CodedTiles& w) : floats(w.bytes, w.values) {}
  CRUMB_INLINE __m256 values(const std::uint8_t* tile, std::size_t column) const {
    const __m256i top = _mm256_slli_epi32(line_of(tile, column), static_cast<int>(24 - 8 * (column % 4)));
    return floats.of(_mm256_srli_epi32(top, 24));
  }
};

/// The scale and zero points of a block, for eight outputs.
struct Block {
  __m256 scale;
  const float* zeros = nullptr;
  bool adds = false;

  CRUMB_INLINE Block(const CodedTiles& w, std::size_t first) : scale(_mm256_loadu_ps(w.scales + first)) {
    if (!w.zeros) return;
    zeros = w.zeros + first;
    adds = w.adds_zeros;
  }
  CRUMB_INLINE __m256 scaled(__m256 values) const {
    if (!zeros) return _mm256_mul_ps(values, scale);
    const __m256 zero = _mm256_loadu_ps(zeros);
    if (adds) return _mm256_add_ps(_mm256_mul_ps(values, scale), zero);
    return _mm256_mul_ps(_mm256_sub_ps(values, zero), scale);
  }
};

/// Adds columns [First, First + kSums) of half a tile's width.
template <std::size_t First, class Codes>
CRUMB_INLINE void add_columns(const Codes& codes, const std::uint8_t* tile, const Block& block,
                              std::size_t part, const float* x, __m256 (&sums)[kSums]) {
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kSums; ++i) {
    const std::size_t column = part * kPartialSums + First + i;
    const __m256 values = block.scaled(codes.values(tile, column));
    sums[i] = _mm256_fmadd_ps(_mm256_broadcast_ss(x + column), values, sums[i]);
  }
}

/// Partial sums [First, First + kSums) of eight outputs and the first row of x, over the terms of whole
/// tiles.
template <class Codes, std::size_t First>
CRUMB_AVX2 void partial_sums(const Products& p, const CodedTiles& w, const Codes& codes, std::size_t row,
                             std::size_t half, float (*made)[kRows]) {
  const std::size_t blocks = (p.terms + w.block - 1) / w.block, before = row * blocks * kRows + half * kHalf;
  const std::size_t whole = p.terms / kCols * kCols;
  const std::uint8_t* tile = w.codes + row * w.row_bytes + half * (kLine / 2);
  __m256 sums[kSums];
  for (__m256& sum : sums) sum = _mm256_setzero_ps();
  const bool are_halves = w.block == kCols / 2 && w.block < p.terms;  // of tiles; else blocks are whole ones
  const std::size_t length = are_halves ? kCols : w.block;
  for (std::size_t b = 0, k = 0; k < whole; b += are_halves ? 2 : 1) {
    const Block left(w, before + b * kRows), right(w, before + (are_halves ? b + 1 : b) * kRows);
    const std::size_t end = whole - k < length ? whole : k + length;
    for (; k < end; k += kCols, tile += Codes::kTile) {
      if (First == 0 && half == 0) {
        for (std::size_t line = 0; line < Codes::kTile; line += kLine)
          _mm_prefetch(reinterpret_cast<const char*>(tile + kAhead + line), _MM_HINT_T0);
      }
      add_columns<First>(codes, tile, left, 0, p.x + k, sums);
      add_columns<First>(codes, tile, right, 1, p.x + k, sums);
    }
  }
  for (std::size_t i = 0; i < kSums; ++i) _mm256_storeu_ps(made[First + i] + half * kHalf, sums[i]);
}

/// Adds the terms of a last tile that is not whole, by the values' table.
CRUMB_AVX2 void add_last_tile(const Products& p, const CodedTiles& w, std::size_t row, float (*made)[kRows]) {
  const std::size_t blocks = (p.terms + w.block - 1) / w.block, first = p.terms / kCols * kCols;
  std::uint8_t codes[kRows * kCols];
  unpack_tile(w.codes + row * w.row_bytes + first / kCols * tile_bytes(w.bits), w.bits, codes);
  for (std::size_t k = first; k < p.terms; ++k) {
    const std::size_t column = k - first, sum = column % kPartialSums;
    for (std::size_t half = 0; half < 2; ++half) {
      const Block block(w, (row * blocks + k / w.block) * kRows + half * kHalf);
      const __m256i fours = _mm256_loadu_si256(
          reinterpret_cast<const __m256i*>(codes + column / 4 * kLine + half * (kLine / 2)));
      const __m256i code =
          _mm256_and_si256(_mm256_srl_epi32(fours, _mm_cvtsi32_si128(static_cast<int>(8 * (column % 4)))),
                           _mm256_set1_epi32(0xFF));
      const __m256 values = block.scaled(_mm256_i32gather_ps(w.values, code, 4));
      float* const to = made[sum] + half * kHalf;
      _mm256_storeu_ps(to, _mm256_fmadd_ps(_mm256_broadcast_ss(p.x + k), values, _mm256_loadu_ps(to)));
    }
  }
}

template <class Codes>
CRUMB_AVX2 void one_row(const Products& p, const CodedTiles& w) {
  static_assert(kPartialSums == 2 * kSums);
  const Codes codes(w);
  alignas(32) float made[kPartialSums][kRows];
  for (std::size_t n = 0; n < p.columns; n += kRows) {
    const std::size_t count = p.columns - n < kRows ? p.columns - n : kRows;
    for (std::size_t half = 0; half * kHalf < count; ++half) {
      partial_sums<Codes, 0>(p, w, codes, n / kRows, half, made);
      partial_sums<Codes, kSums>(p, w, codes, n / kRows, half, made);
    }
    if (p.terms % kCols != 0) add_last_tile(p, w, n / kRows, made);
    for (std::size_t step = kPartialSums / 2; step > 0; step /= 2) {  // as fold() does
      for (std::size_t i = 0; i < step; ++i)
        for (std::size_t o = 0; o < count; ++o) made[i][o] += made[i + step][o];
    }
    for (std::size_t o = 0; o < count; ++o) p.y[(n + o) * p.y_column] = made[0][o];
  }
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
        const Block block(w, slot);
#pragma GCC unroll 1
        for (std::size_t i = 0; i < kPartialSums; ++i) {
          if (first + i >= terms) break;
          _mm256_storeu_ps(next[i], block.scaled(codes.values(tile, half * kPartialSums + i)));
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
  w.bytes.kind == ByteKind::kFloat ? call.template operator()<Floats>()
                                   : call.template operator()<Integers>();
}

}  // namespace

void multiply_tiles_avx2(const Products& p, const CodedTiles& w) {
  if (p.terms == 0) return multiply_tiles_ref(p, w);
  with_codes(w, [&]<class Codes>() {
    for (std::size_t m = 0; m < p.rows; ++m) one_row<Codes>(some_rows_of(p, m, 1), w);
  });
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
