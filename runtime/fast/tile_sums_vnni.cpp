// tile_sums.h with AVX-512 VNNI. The instruction sets are named function by function, so that nothing inline
// of the standard library is compiled for them.
#include "runtime/fast/tile_sums.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#define CRUMB_VNNI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2")))
#define CRUMB_INLINE CRUMB_VNNI inline __attribute__((always_inline))

namespace crumb::runtime {
namespace {

constexpr std::size_t kRows = kTileRows, kCols = kTileCols, kLine = kTileLine;
constexpr std::size_t kGroup = 4, kGroups = kCols / kGroup;  // terms of a vector; vectors of a tile
constexpr __mmask16 kAll = 0xFFFF;  // GCC 12 takes the forms without a mask for reads of nothing

/// Vector G of a tile's field of Width bits that begins at `lines`, its bits from bit To of each byte on;
/// other bits are anything.
template <int Width, std::size_t G, int To>
CRUMB_INLINE __m512i field(const std::uint8_t* lines) {
  constexpr std::size_t kPlanes = 8 / Width;
  constexpr int kFrom = Width * static_cast<int>(G % kPlanes);
  const __m512i line = _mm512_loadu_si512(lines + G / kPlanes * kLine);
  if constexpr (kFrom > To) return _mm512_maskz_srli_epi32(kAll, line, kFrom - To);
  if constexpr (kFrom < To) return _mm512_maskz_slli_epi32(kAll, line, To - kFrom);
  return line;
}

CRUMB_INLINE __m512i mask_of(int count, int from) {
  return _mm512_set1_epi8(static_cast<char>(((1 << count) - 1) << from));
}

/// Vector G of a tile: the codes of four terms of sixteen rows.
template <int Bits, std::size_t G>
CRUMB_INLINE __m512i codes_of(const std::uint8_t* tile) {
  if constexpr (Bits == 8) {
    return field<8, G, 0>(tile);
  } else {
    constexpr int kFirst = Bits >= 4 ? 4 : Bits >= 2 ? 2 : 1, kRest = Bits - kFirst;
    __m512i codes = _mm512_and_si512(field<kFirst, G, 0>(tile), mask_of(kFirst, 0));
    if constexpr (kRest > 0) {
      constexpr int kSecond = kRest >= 2 ? 2 : 1;
      const std::uint8_t* const behind = tile + kFirst * kLine;
      const __m512i second = field<kSecond, G, kFirst>(behind);
      codes = _mm512_ternarylogic_epi32(codes, second, mask_of(kSecond, kFirst), 0xF8);  // a | (b & c)
      if constexpr (kRest > kSecond) {
        const __m512i third = field<1, G, kFirst + kSecond>(behind + kSecond * kLine);
        codes = _mm512_ternarylogic_epi32(codes, third, mask_of(1, kFirst + kSecond), 0xF8);
      }
    }
    return codes;
  }
}

/// The bytes `above` of codes that they are, but for one bit.
template <int Bits>
struct Flipped {
  static constexpr std::size_t kTile = kLine * Bits;
  __m512i flip;
  CRUMB_INLINE explicit Flipped(const LevelCodes& levels)
      : flip(_mm512_set1_epi8(static_cast<char>(*levels.flip))) {}
  template <std::size_t G>
  CRUMB_INLINE __m512i at(const std::uint8_t* tile) const {
    return _mm512_xor_si512(codes_of<Bits, G>(tile), flip);
  }
};

/// Those of codes with a table, sixteen codes in each part of it.
template <int Bits>
struct InTable {
  static constexpr std::size_t kTile = kLine * Bits;
  static constexpr int kParts = Bits <= 4 ? 1 : 1 << (Bits - 4);
  __m512i table[kParts];
  CRUMB_INLINE explicit InTable(const LevelCodes& levels) {
    for (int i = 0; i < kParts; ++i)
      table[i] = _mm512_maskz_broadcast_i32x4(
          kAll, _mm_loadu_si128(reinterpret_cast<const __m128i*>(levels.above.data() + 16 * i)));
  }
  template <std::size_t G>
  CRUMB_INLINE __m512i at(const std::uint8_t* tile) const {
    const __m512i codes = codes_of<Bits, G>(tile);
    if constexpr (kParts == 1) {
      return _mm512_shuffle_epi8(table[0], codes);
    } else {
      const __mmask64 odd = _mm512_test_epi8_mask(codes, _mm512_set1_epi8(16));
      const __m512i in_part = _mm512_and_si512(codes, _mm512_set1_epi8(15));
      const __m512i low =
          _mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(table[0], in_part), odd, table[1], in_part);
      if constexpr (kParts == 2) return low;
      const __m512i high = _mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(table[kParts - 2], in_part), odd,
                                                    table[kParts - 1], in_part);
      return _mm512_mask_mov_epi8(low, _mm512_test_epi8_mask(codes, _mm512_set1_epi8(32)), high);
    }
  }
};

CRUMB_INLINE __m512i four(const std::int8_t* q) {
  std::int32_t terms = 0;
  std::memcpy(&terms, q, sizeof terms);
  return _mm512_set1_epi32(terms);
}

/// Where the sum of block b of row r begins: with what `above` leaves out.
CRUMB_INLINE __m512i start_of(const ByteTerms& x, const TileBlocks& w, std::size_t r, std::size_t b) {
  const std::int32_t sum = x.sums[r * x.sums_stride + b];
  if (!w.origins)
    return _mm512_set1_epi32(
        static_cast<std::int32_t>(static_cast<std::uint32_t>(sum) * static_cast<std::uint32_t>(w.least)));
  return _mm512_mullo_epi32(_mm512_set1_epi32(sum), _mm512_loadu_si512(w.origins + b * kRows));
}

/// Adds vectors [G, End) of a tile to the sums of M rows, which take turns in two registers each.
template <class Codes, std::size_t M, std::size_t G, std::size_t End>
CRUMB_INLINE void add_vectors(const Codes& codes, const std::uint8_t* tile, const std::int8_t* q,
                              std::size_t stride, __m512i (&sums)[M][2]) {
  if constexpr (G < End) {
    const __m512i above = codes.template at<G>(tile);
#pragma GCC unroll 4
    for (std::size_t m = 0; m < M; ++m)
      sums[m][G % 2] = _mm512_dpbusd_epi32(sums[m][G % 2], above, four(q + m * stride + G * kGroup));
    add_vectors<Codes, M, G + 1, End>(codes, tile, q, stride, sums);
  }
}

/// kHalves: blocks are odd multiples of half a tile.
template <class Codes, std::size_t M, bool kHalves>
CRUMB_VNNI void sum_rows(const ByteTerms& x, const LevelTiles& w, float* made) {
  const Codes codes(*w.levels);
  const TileBlocks& blocks = w.blocks;
  __m512 sums[M];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  const std::uint8_t* tile = w.codes;
  for (std::size_t b = 0, k = 0; k < x.terms; ++b) {
    const std::size_t end = x.terms - k < blocks.block ? x.terms : k + blocks.block;
    __m512i parts[M][2];
    for (std::size_t m = 0; m < M; ++m) {
      parts[m][0] = start_of(x, blocks, m, b);
      parts[m][1] = _mm512_setzero_si512();
    }
    while (k < end) {
      for (std::size_t line = 0; line < Codes::kTile; line += kLine)
        _mm_prefetch(reinterpret_cast<const char*>(tile + 2048 + line), _MM_HINT_T0);
      if constexpr (kHalves) {
        if (k % kCols == 0) {
          add_vectors<Codes, M, 0, kGroups / 2>(codes, tile, x.q + k, x.stride, parts);
          k += kCols / 2;
          if (k >= end) break;
        }
        add_vectors<Codes, M, kGroups / 2, kGroups>(codes, tile, x.q + k - kCols / 2, x.stride, parts);
        k += kCols / 2;
      } else {
        add_vectors<Codes, M, 0, kGroups>(codes, tile, x.q + k, x.stride, parts);
        k += kCols;
      }
      tile += Codes::kTile;
    }
    k = end;
    const __m512 scale = _mm512_loadu_ps(blocks.scales + b * kRows);
    for (std::size_t m = 0; m < M; ++m) {
      const __m512 sum = _mm512_maskz_cvtepi32_ps(kAll, _mm512_add_epi32(parts[m][0], parts[m][1]));
      sums[m] = _mm512_add_ps(sums[m], _mm512_mul_ps(sum, scale));
    }
  }
  for (std::size_t m = 0; m < M; ++m) _mm512_storeu_ps(made + m * kRows, sums[m]);
}

template <class Codes, bool kHalves = false>
void some_rows(const ByteTerms& x, const LevelTiles& w, float* made) {
  static_assert(kFewByteRows == 4);
  if (x.rows == 4) return sum_rows<Codes, 4, kHalves>(x, w, made);
  for (std::size_t r = 0; r < x.rows; ++r) sum_rows<Codes, 1, kHalves>(one_row(x, r), w, made + r * kRows);
}

/// Calls with the type that takes such codes.
template <class Call>
void with_codes(const LevelCodes& levels, const Call& call) {
  switch (levels.bits) {
    case 1: return call.template operator()<InTable<1>>();
    case 2: return call.template operator()<InTable<2>>();
    case 3: return call.template operator()<InTable<3>>();
    case 4: return call.template operator()<InTable<4>>();
    case 5:
      return levels.flip ? call.template operator()<Flipped<5>>() : call.template operator()<InTable<5>>();
    case 6:
      return levels.flip ? call.template operator()<Flipped<6>>() : call.template operator()<InTable<6>>();
    case 7: return call.template operator()<Flipped<7>>();
    default: return call.template operator()<Flipped<8>>();
  }
}

template <class Codes, std::size_t G = 0>
CRUMB_INLINE void store_vectors(const Codes& codes, const std::uint8_t* tile, std::uint8_t* panel) {
  if constexpr (G < kGroups) {
    _mm512_storeu_si512(panel + G * kLine, codes.template at<G>(tile));
    store_vectors<Codes, G + 1>(codes, tile, panel);
  }
}

template <class Codes>
CRUMB_VNNI void panel_of(const LevelCodes& levels, const std::uint8_t* tile, std::size_t tiles,
                         std::uint8_t* panel) {
  const Codes codes(levels);
  for (std::size_t t = 0; t < tiles; ++t, tile += Codes::kTile, panel += kRows * kCols)
    store_vectors(codes, tile, panel);
}

/// Blocks of M rows.
template <std::size_t M>
CRUMB_VNNI void add_rows(const ByteTerms& x, std::size_t first, const LevelPanel& w, float* made,
                         std::size_t made_stride) {
  const TileBlocks& blocks = w.blocks;
  ByteTerms rows = x;
  rows.q += first * x.stride;
  rows.sums += first * x.sums_stride;
  made += first * made_stride;
  const std::uint8_t* vector = w.bytes;
  for (std::size_t b = 0, k = 0; k < x.terms; ++b) {
    const std::size_t end = x.terms - k < blocks.block ? x.terms : k + blocks.block;
    __m512i sums[M];
#pragma GCC unroll 12
    for (std::size_t m = 0; m < M; ++m) sums[m] = start_of(rows, blocks, m, b);
    for (const std::int8_t* q = rows.q + k; k < end; k += kGroup, q += kGroup, vector += kLine) {
      const __m512i above = _mm512_load_si512(vector);
#pragma GCC unroll 12
      for (std::size_t m = 0; m < M; ++m)
        sums[m] = _mm512_dpbusd_epi32(sums[m], above, four(q + m * x.stride));
    }
    k = end;
    const __m512 scale = _mm512_loadu_ps(blocks.scales + b * kRows);
#pragma GCC unroll 12
    for (std::size_t m = 0; m < M; ++m) {
      float* const to = made + m * made_stride;
      const __m512 weighted = _mm512_mul_ps(_mm512_maskz_cvtepi32_ps(kAll, sums[m]), scale);
      _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), weighted));
    }
  }
}

}  // namespace

void sum_tiles_vnni(const ByteTerms& x, const LevelTiles& w, float* made) {
  if (are_halves(x, w.blocks)) return some_rows<InTable<4>, true>(x, w, made);
  with_codes(*w.levels, [&]<class Codes>() { some_rows<Codes>(x, w, made); });
}

void tiles_to_panel_vnni(const LevelCodes& levels, const std::uint8_t* codes, std::size_t tiles,
                         std::uint8_t* panel) {
  with_codes(levels, [&]<class Codes>() { panel_of<Codes>(levels, codes, tiles, panel); });
}

void add_panel_vnni(const ByteTerms& x, const LevelPanel& w, float* made, std::size_t made_stride) {
  std::size_t r = 0;
  for (; r + 12 <= x.rows; r += 12) add_rows<12>(x, r, w, made, made_stride);
  if (r + 8 <= x.rows) add_rows<8>(x, r, w, made, made_stride), r += 8;
  if (r + 4 <= x.rows) add_rows<4>(x, r, w, made, made_stride), r += 4;
  if (r + 2 <= x.rows) add_rows<2>(x, r, w, made, made_stride), r += 2;
  if (r < x.rows) add_rows<1>(x, r, w, made, made_stride);
}

}  // namespace crumb::runtime

#else

namespace crumb::runtime {
void sum_tiles_vnni(const ByteTerms& x, const LevelTiles& w, float* made) { sum_tiles_ref(x, w, made); }
void add_panel_vnni(const ByteTerms& x, const LevelPanel& w, float* made, std::size_t made_stride) {
  add_panel_ref(x, w, made, made_stride);
}
void tiles_to_panel_vnni(const LevelCodes& levels, const std::uint8_t* codes, std::size_t tiles,
                         std::uint8_t* panel) {
  tiles_to_panel_ref(levels, codes, tiles, panel);
}
}  // namespace crumb::runtime

#endif
