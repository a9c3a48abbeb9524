// tile_sums.h with AVX2: eight rows of weights in a register.
//
// vpmaddubsw adds two products of bytes in 16 bits, and more of them are added there as long as they are
// proven to fit: with bytes up to `widest`, a register holds 32767 / (2 * 127 * widest) vectors. Of wider
// bytes 128 is subtracted; magnitudes and q with their signs make at most 2 * 128 * 127 = 32,512. The
// instruction set is named function by function, so that nothing inline of the standard library is compiled
// for it.
#include "runtime/fast/tile_sums.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#define CRUMB_AVX2 __attribute__((target("avx2")))
#define CRUMB_INLINE CRUMB_AVX2 inline __attribute__((always_inline))

namespace crumb::runtime {
namespace {

constexpr std::size_t kRows = kTileRows, kCols = kTileCols, kLine = kTileLine;
constexpr std::size_t kGroup = 4, kGroups = kCols / kGroup;  // terms of a vector; vectors of a tile
constexpr std::size_t kHalfRows = kRows / 2, kHalfLine = kLine / 2;

/// Vectors that 16 bits hold the products of, bytes being at most so wide; 0: not one.
constexpr std::size_t span_of(std::int32_t widest) {
  return widest == 0 ? 64 : static_cast<std::size_t>(32767 / (2 * 127 * widest));
}

/// Vector G of half a tile's field of Width bits that begins at `lines`, its bits from bit To of each byte
/// on; other bits are anything.
template <int Width, std::size_t G, int To>
CRUMB_INLINE __m256i field(const std::uint8_t* lines) {
  constexpr std::size_t kPlanes = 8 / Width;
  constexpr int kFrom = Width * static_cast<int>(G % kPlanes);
  const __m256i line = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lines + G / kPlanes * kLine));
  if constexpr (kFrom > To) return _mm256_srli_epi32(line, kFrom - To);
  if constexpr (kFrom < To) return _mm256_slli_epi32(line, To - kFrom);
  return line;
}

CRUMB_INLINE __m256i mask_of(int count, int from) {
  return _mm256_set1_epi8(static_cast<char>(((1 << count) - 1) << from));
}

/// Vector G of half a tile: the codes of four terms of eight rows.
template <int Bits, std::size_t G>
CRUMB_INLINE __m256i codes_of(const std::uint8_t* tile) {
  if constexpr (Bits == 8) {
    return field<8, G, 0>(tile);
  } else {
    constexpr int kFirst = Bits >= 4 ? 4 : Bits >= 2 ? 2 : 1, kRest = Bits - kFirst;
    __m256i codes = _mm256_and_si256(field<kFirst, G, 0>(tile), mask_of(kFirst, 0));
    if constexpr (kRest > 0) {
      constexpr int kSecond = kRest >= 2 ? 2 : 1;
      const std::uint8_t* const behind = tile + kFirst * kLine;
      codes = _mm256_or_si256(codes,
                              _mm256_and_si256(field<kSecond, G, kFirst>(behind), mask_of(kSecond, kFirst)));
      if constexpr (kRest > kSecond)
        codes =
            _mm256_or_si256(codes, _mm256_and_si256(field<1, G, kFirst + kSecond>(behind + kSecond * kLine),
                                                    mask_of(1, kFirst + kSecond)));
    }
    return codes;
  }
}

/// The bytes `above` of codes that they are, but for one bit.
template <int Bits>
struct Flipped {
  static constexpr std::size_t kTile = kLine * Bits;
  __m256i flip;
  CRUMB_INLINE explicit Flipped(const LevelCodes& levels)
      : flip(_mm256_set1_epi8(static_cast<char>(*levels.flip))) {}
  template <std::size_t G>
  CRUMB_INLINE __m256i at(const std::uint8_t* tile) const {
    return _mm256_xor_si256(codes_of<Bits, G>(tile), flip);
  }
};

/// Those of codes with a table, sixteen codes in each part of it.
template <int Bits>
struct InTable {
  static constexpr std::size_t kTile = kLine * Bits;
  static constexpr int kParts = Bits <= 4 ? 1 : 1 << (Bits - 4);
  __m256i table[kParts];
  CRUMB_INLINE explicit InTable(const LevelCodes& levels) {
    for (int i = 0; i < kParts; ++i)
      table[i] = _mm256_broadcastsi128_si256(
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(levels.above.data() + 16 * i)));
  }
  template <std::size_t G>
  CRUMB_INLINE __m256i at(const std::uint8_t* tile) const {
    const __m256i codes = codes_of<Bits, G>(tile);
    if constexpr (kParts == 1) {
      return _mm256_shuffle_epi8(table[0], codes);
    } else {
      const __m256i in_part = _mm256_and_si256(codes, _mm256_set1_epi8(15));
      const __m256i odd = _mm256_slli_epi32(codes, 3), upper = _mm256_slli_epi32(codes, 2);  // as signs
      const __m256i low = _mm256_blendv_epi8(_mm256_shuffle_epi8(table[0], in_part),
                                             _mm256_shuffle_epi8(table[1], in_part), odd);
      if constexpr (kParts == 2) return low;
      const __m256i high = _mm256_blendv_epi8(_mm256_shuffle_epi8(table[kParts - 2], in_part),
                                              _mm256_shuffle_epi8(table[kParts - 1], in_part), odd);
      return _mm256_blendv_epi8(low, high, upper);
    }
  }
};

CRUMB_INLINE __m256i four(const std::int8_t* q) {
  std::int32_t terms = 0;
  std::memcpy(&terms, q, sizeof terms);
  return _mm256_set1_epi32(terms);
}

CRUMB_INLINE __m256i pairs_to_sums(__m256i pairs) { return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); }

/// Pairs of products; of bytes less 128 where kIsWide.
template <bool kIsWide>
CRUMB_INLINE __m256i pairs_of(__m256i weights, __m256i q) {
  if constexpr (kIsWide) return _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(q, weights));
  return _mm256_maddubs_epi16(weights, q);
}

/// Where the sum of block b of row r begins, of eight rows of weights: with what their bytes leave out.
template <bool kIsWide>
CRUMB_INLINE __m256i start_of(const ByteTerms& x, const TileBlocks& w, std::size_t r, std::size_t b,
                              std::size_t half) {
  constexpr std::int32_t kLess = kIsWide ? 128 : 0;
  const std::int32_t sum = x.sums[r * x.sums_stride + b];
  const __m256i sums = _mm256_set1_epi32(sum);
  if (!w.origins) return _mm256_mullo_epi32(sums, _mm256_set1_epi32(w.least + kLess));
  const __m256i origins =
      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w.origins + b * kRows + half * kHalfRows));
  return _mm256_mullo_epi32(sums, _mm256_add_epi32(origins, _mm256_set1_epi32(kLess)));
}

/// Adds vectors [G, End) of half a tile to the sums of M rows, through 16 bits that hold kSpan vectors;
/// kSpan 0: less 128.
template <class Codes, std::size_t kSpan, std::size_t M, std::size_t First, std::size_t End,
          std::size_t G = First>
CRUMB_INLINE void add_vectors(const Codes& codes, const std::uint8_t* tile, const std::int8_t* q,
                              std::size_t stride, __m256i (&pairs)[M], __m256i* sums) {
  if constexpr (G < End) {
    constexpr std::size_t kTogether = kSpan == 0 ? 1 : kSpan;
    __m256i weights = codes.template at<G>(tile);
    if constexpr (kSpan == 0) weights = _mm256_xor_si256(weights, _mm256_set1_epi8(-128));
#pragma GCC unroll 4
    for (std::size_t m = 0; m < M; ++m) {
      const __m256i made = pairs_of<kSpan == 0>(weights, four(q + m * stride + G * kGroup));
      pairs[m] = (G - First) % kTogether == 0 ? made : _mm256_add_epi16(pairs[m], made);
      if constexpr ((G + 1 - First) % kTogether == 0 || G + 1 == End)
        sums[m] = _mm256_add_epi32(sums[m], pairs_to_sums(pairs[m]));
    }
    add_vectors<Codes, kSpan, M, First, End, G + 1>(codes, tile, q, stride, pairs, sums);
  }
}

template <class Codes, std::size_t kSpan, std::size_t M, std::size_t First, std::size_t End>
CRUMB_INLINE void add_tile(const Codes& codes, const std::uint8_t* tile, const std::int8_t* q,
                           std::size_t stride, __m256i (&sums)[2][M]) {
#pragma GCC unroll 2
  for (std::size_t half = 0; half < 2; ++half) {
    __m256i pairs[M];
    add_vectors<Codes, kSpan, M, First, End>(codes, tile + half * kHalfLine, q, stride, pairs, sums[half]);
  }
}

/// kHalves: blocks are odd multiples of half a tile.
template <class Codes, std::size_t kSpan, std::size_t M, bool kHalves>
CRUMB_AVX2 void sum_rows(const ByteTerms& x, const LevelTiles& w, float* made) {
  const Codes codes(*w.levels);
  const TileBlocks& blocks = w.blocks;
  __m256 totals[2][M];
  for (auto& of_half : totals)
    for (__m256& total : of_half) total = _mm256_setzero_ps();
  const std::uint8_t* tile = w.codes;
  for (std::size_t b = 0, k = 0; k < x.terms; ++b) {
    const std::size_t end = x.terms - k < blocks.block ? x.terms : k + blocks.block;
    __m256i sums[2][M];
#pragma GCC unroll 2
    for (std::size_t half = 0; half < 2; ++half)
#pragma GCC unroll 4
      for (std::size_t m = 0; m < M; ++m) sums[half][m] = start_of<kSpan == 0>(x, blocks, m, b, half);
    while (k < end) {
      for (std::size_t line = 0; line < Codes::kTile; line += kLine)
        _mm_prefetch(reinterpret_cast<const char*>(tile + 2048 + line), _MM_HINT_T0);
      if constexpr (kHalves) {
        if (k % kCols == 0) {
          add_tile<Codes, kSpan, M, 0, kGroups / 2>(codes, tile, x.q + k, x.stride, sums);
          k += kCols / 2;
          if (k >= end) break;
        }
        add_tile<Codes, kSpan, M, kGroups / 2, kGroups>(codes, tile, x.q + k - kCols / 2, x.stride, sums);
        k += kCols / 2;
      } else {
        add_tile<Codes, kSpan, M, 0, kGroups>(codes, tile, x.q + k, x.stride, sums);
        k += kCols;
      }
      tile += Codes::kTile;
    }
    k = end;
#pragma GCC unroll 2
    for (std::size_t half = 0; half < 2; ++half) {
      const __m256 scale = _mm256_loadu_ps(blocks.scales + b * kRows + half * kHalfRows);
#pragma GCC unroll 4
      for (std::size_t m = 0; m < M; ++m)
        totals[half][m] =
            _mm256_add_ps(totals[half][m], _mm256_mul_ps(_mm256_cvtepi32_ps(sums[half][m]), scale));
    }
  }
#pragma GCC unroll 4
  for (std::size_t m = 0; m < M; ++m)
#pragma GCC unroll 2
    for (std::size_t half = 0; half < 2; ++half)
      _mm256_storeu_ps(made + m * kRows + half * kHalfRows, totals[half][m]);
}

template <class Codes, std::size_t kSpan, bool kHalves>
void some_rows(const ByteTerms& x, const LevelTiles& w, float* made) {
  static_assert(kFewByteRows == 4);
  if (x.rows == 4) return sum_rows<Codes, kSpan, 4, kHalves>(x, w, made);
  for (std::size_t r = 0; r < x.rows; ++r)
    sum_rows<Codes, kSpan, 1, kHalves>(one_row(x, r), w, made + r * kRows);
}

/// With the longest of the spans that the width of bytes allows.
template <class Codes, bool kHalves, std::size_t... kSpans>
void of_codes(const ByteTerms& x, const LevelTiles& w, float* made) {
  const std::size_t span = span_of(w.levels->widest);
  bool is_done = false;
  ((!is_done && kSpans <= span ? (some_rows<Codes, kSpans, kHalves>(x, w, made), is_done = true) : false),
   ...);
}

template <class Codes, std::size_t G = 0>
CRUMB_INLINE void store_vectors(const Codes& codes, const std::uint8_t* tile, std::uint8_t* panel) {
  if constexpr (G < kGroups) {
#pragma GCC unroll 2
    for (std::size_t half = 0; half < 2; ++half)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(panel + G * kLine + half * kHalfLine),
                          codes.template at<G>(tile + half * kHalfLine));
    store_vectors<Codes, G + 1>(codes, tile, panel);
  }
}

template <class Codes>
CRUMB_AVX2 void panel_of(const LevelCodes& levels, const std::uint8_t* tile, std::size_t tiles,
                         std::uint8_t* panel) {
  const Codes codes(levels);
  for (std::size_t t = 0; t < tiles; ++t, tile += Codes::kTile, panel += kRows * kCols)
    store_vectors(codes, tile, panel);
}

/// The blocks of M rows, eight rows of weights.
template <std::size_t M, bool kIsWide>
CRUMB_AVX2 void add_rows(const ByteTerms& x, std::size_t first, const LevelPanel& w, std::size_t half,
                         float* made, std::size_t made_stride) {
  const TileBlocks& blocks = w.blocks;
  const std::size_t span = kIsWide ? 1 : span_of(w.widest);
  ByteTerms rows = x;
  rows.q += first * x.stride;
  rows.sums += first * x.sums_stride;
  made += first * made_stride + half * kHalfRows;
  const std::uint8_t* vector = w.bytes + half * kHalfLine;
  for (std::size_t b = 0, k = 0; k < x.terms; ++b) {
    const std::size_t end = x.terms - k < blocks.block ? x.terms : k + blocks.block;
    __m256i sums[M];
#pragma GCC unroll 6
    for (std::size_t m = 0; m < M; ++m) sums[m] = start_of<kIsWide>(rows, blocks, m, b, half);
    while (k < end) {
      __m256i pairs[M];
#pragma GCC unroll 6
      for (std::size_t m = 0; m < M; ++m) pairs[m] = _mm256_setzero_si256();
      const std::size_t until = end - k < span * kGroup ? end : k + span * kGroup;
      for (; k < until; k += kGroup, vector += kLine) {
        __m256i weights = _mm256_load_si256(reinterpret_cast<const __m256i*>(vector));
        if constexpr (kIsWide) weights = _mm256_xor_si256(weights, _mm256_set1_epi8(-128));
#pragma GCC unroll 6
        for (std::size_t m = 0; m < M; ++m)
          pairs[m] = _mm256_add_epi16(pairs[m], pairs_of<kIsWide>(weights, four(rows.q + m * x.stride + k)));
      }
#pragma GCC unroll 6
      for (std::size_t m = 0; m < M; ++m) sums[m] = _mm256_add_epi32(sums[m], pairs_to_sums(pairs[m]));
    }
    k = end;
    const __m256 scale = _mm256_loadu_ps(blocks.scales + b * kRows + half * kHalfRows);
#pragma GCC unroll 6
    for (std::size_t m = 0; m < M; ++m) {
      float* const to = made + m * made_stride;
      const __m256 weighted = _mm256_mul_ps(_mm256_cvtepi32_ps(sums[m]), scale);
      _mm256_storeu_ps(to, _mm256_add_ps(_mm256_loadu_ps(to), weighted));
    }
  }
}

template <bool kIsWide>
void all_rows(const ByteTerms& x, const LevelPanel& w, float* made, std::size_t made_stride) {
#pragma GCC unroll 2
  for (std::size_t half = 0; half < 2; ++half) {
    std::size_t r = 0;
    for (; r + 6 <= x.rows; r += 6) add_rows<6, kIsWide>(x, r, w, half, made, made_stride);
    if (r + 4 <= x.rows) add_rows<4, kIsWide>(x, r, w, half, made, made_stride), r += 4;
    if (r + 2 <= x.rows) add_rows<2, kIsWide>(x, r, w, half, made, made_stride), r += 2;
    if (r < x.rows) add_rows<1, kIsWide>(x, r, w, half, made, made_stride);
  }
}

}  // namespace

void sum_tiles_avx2(const ByteTerms& x, const LevelTiles& w, float* made) {
  const bool flip = w.levels->flip.has_value();
  if (are_halves(x, w.blocks)) return of_codes<InTable<4>, true, 4, 0>(x, w, made);
  switch (w.levels->bits) {
    case 1: return of_codes<InTable<1>, false, 8, 0>(x, w, made);
    case 2: return of_codes<InTable<2>, false, 8, 0>(x, w, made);
    case 3: return of_codes<InTable<3>, false, 8, 0>(x, w, made);
    case 4: return of_codes<InTable<4>, false, 8, 4, 0>(x, w, made);
    case 5:
      return flip ? of_codes<Flipped<5>, false, 4>(x, w, made)
                  : of_codes<InTable<5>, false, 1, 0>(x, w, made);
    case 6:
      return flip ? of_codes<Flipped<6>, false, 2>(x, w, made)
                  : of_codes<InTable<6>, false, 1, 0>(x, w, made);
    case 7: return of_codes<Flipped<7>, false, 1>(x, w, made);
    default: return of_codes<Flipped<8>, false, 0>(x, w, made);
  }
}

void tiles_to_panel_avx2(const LevelCodes& levels, const std::uint8_t* codes, std::size_t tiles,
                         std::uint8_t* panel) {
  const bool flip = levels.flip.has_value();
  switch (levels.bits) {
    case 1: return panel_of<InTable<1>>(levels, codes, tiles, panel);
    case 2: return panel_of<InTable<2>>(levels, codes, tiles, panel);
    case 3: return panel_of<InTable<3>>(levels, codes, tiles, panel);
    case 4: return panel_of<InTable<4>>(levels, codes, tiles, panel);
    case 5:
      return flip ? panel_of<Flipped<5>>(levels, codes, tiles, panel)
                  : panel_of<InTable<5>>(levels, codes, tiles, panel);
    case 6:
      return flip ? panel_of<Flipped<6>>(levels, codes, tiles, panel)
                  : panel_of<InTable<6>>(levels, codes, tiles, panel);
    case 7: return panel_of<Flipped<7>>(levels, codes, tiles, panel);
    default: return panel_of<Flipped<8>>(levels, codes, tiles, panel);
  }
}

void add_panel_avx2(const ByteTerms& x, const LevelPanel& w, float* made, std::size_t made_stride) {
  if (span_of(w.widest) > 0) return all_rows<false>(x, w, made, made_stride);
  all_rows<true>(x, w, made, made_stride);
}

}  // namespace crumb::runtime
#else
namespace crumb::runtime {

void sum_tiles_avx2(const ByteTerms& x, const LevelTiles& w, float* made) { sum_tiles_ref(x, w, made); }
void add_panel_avx2(const ByteTerms& x, const LevelPanel& w, float* made, std::size_t made_stride) {
  add_panel_ref(x, w, made, made_stride);
}
void tiles_to_panel_avx2(const LevelCodes& levels, const std::uint8_t* codes, std::size_t tiles,
                         std::uint8_t* panel) {
  tiles_to_panel_ref(levels, codes, tiles, panel);
}

}  // namespace crumb::runtime
#endif
