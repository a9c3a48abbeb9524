// Byte products with AVX2. A vector is two halves of eight columns: vpmaddubsw makes two sums of two products
// for each column, in 16 bits, where these are wide enough; else bytes are widened to 16 bits and vpmaddwd
// adds in 32. The instruction set is named function by function, as in products_avx2.cpp.
#include "runtime/integer/byte_products.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <vector>

#define CRUMB_AVX2 __attribute__((target("avx2,fma")))

namespace crumb::runtime::integer {
namespace {

constexpr std::size_t kHalfBytes = kVectorBytes / 2, kHalfLanes = kLanes / 2;

CRUMB_AVX2 inline __m256i load_half(const std::byte* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

CRUMB_AVX2 inline void store_half(std::int32_t* to, __m256i sums) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), sums);
}

CRUMB_AVX2 inline __m256i four_of(const std::byte* row) {
  std::int32_t terms = 0;
  std::memcpy(&terms, row, sizeof terms);
  return _mm256_set1_epi32(terms);
}

/// Or GCC makes all products first, and has no registers for them.
CRUMB_AVX2 inline void keep_order(__m256i& a, __m256i& b) { asm("" : "+x"(a), "+x"(b)); }

/// The start of the sums of one half of a vector.
template <InVectors kWhich>
CRUMB_AVX2 inline __m256i start_of(const ByteProducts& p, std::size_t r, std::size_t lane) {
  if constexpr (kWhich == InVectors::kCodes) return _mm256_set1_epi32(p.start[r]);
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p.start + lane));
}

template <InVectors kWhich>
CRUMB_AVX2 inline __m256i pairs_of(__m256i four, __m256i half) {
  return kWhich == InVectors::kWeights ? _mm256_maddubs_epi16(four, half) : _mm256_maddubs_epi16(half, four);
}

// Pairs: sums of 16 bits over a span of groups, then of 32 in memory.

template <InVectors kWhich, std::size_t M>
CRUMB_AVX2 void pairs_tile(const ByteProducts& p, std::size_t r, std::size_t v, std::size_t span) {
  const __m256i ones = _mm256_set1_epi16(1);
  std::int32_t* const y = p.y + r * p.y_stride + v * kLanes;
#pragma GCC unroll 8
  for (std::size_t i = 0; i < M; ++i) {
#pragma GCC unroll 8
    for (std::size_t h = 0; h < 2; ++h)
      store_half(y + i * p.y_stride + h * kHalfLanes,
                 start_of<kWhich>(p, r + i, v * kLanes + h * kHalfLanes));
  }
  for (std::size_t begin = 0; begin < p.groups; begin += span) {
    const std::size_t end = std::min(p.groups, begin + span);
    __m256i sums[M][2];
#pragma GCC unroll 8
    for (std::size_t i = 0; i < M; ++i) sums[i][0] = sums[i][1] = _mm256_setzero_si256();
    const std::byte* row = p.row + r * p.row_stride + begin * kGroup;
    const std::byte* vector = p.vector + v * p.vector_step() + begin * kVectorBytes;
    for (std::size_t g = begin; g < end; ++g, row += kGroup, vector += kVectorBytes) {
      const __m256i low = load_half(vector), high = load_half(vector + kHalfBytes);
#pragma GCC unroll 8
      for (std::size_t i = 0; i < M; ++i) {
        const __m256i four = four_of(row + i * p.row_stride);
        sums[i][0] = _mm256_add_epi16(sums[i][0], pairs_of<kWhich>(four, low));
        sums[i][1] = _mm256_add_epi16(sums[i][1], pairs_of<kWhich>(four, high));
        keep_order(sums[i][0], sums[i][1]);
      }
    }
#pragma GCC unroll 8
    for (std::size_t i = 0; i < M; ++i) {
#pragma GCC unroll 8
      for (std::size_t h = 0; h < 2; ++h) {
        std::int32_t* const to = y + i * p.y_stride + h * kHalfLanes;
        const __m256i before = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(to));
        store_half(to, _mm256_add_epi32(before, _mm256_madd_epi16(sums[i][h], ones)));
      }
    }
  }
}

/// The same where the sum of a pair goes to 32 bits at once.
template <InVectors kWhich, std::size_t M>
CRUMB_AVX2 void single_pairs_tile(const ByteProducts& p, std::size_t r, std::size_t v) {
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i sums[M][2];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < M; ++i) {
#pragma GCC unroll 8
    for (std::size_t h = 0; h < 2; ++h) sums[i][h] = start_of<kWhich>(p, r + i, v * kLanes + h * kHalfLanes);
  }
  const std::byte* row = p.row + r * p.row_stride;
  const std::byte* vector = p.vector + v * p.vector_step();
  for (std::size_t g = 0; g < p.groups; ++g, row += kGroup, vector += kVectorBytes) {
    const __m256i low = load_half(vector), high = load_half(vector + kHalfBytes);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < M; ++i) {
      const __m256i four = four_of(row + i * p.row_stride);
      sums[i][0] = _mm256_add_epi32(sums[i][0], _mm256_madd_epi16(pairs_of<kWhich>(four, low), ones));
      sums[i][1] = _mm256_add_epi32(sums[i][1], _mm256_madd_epi16(pairs_of<kWhich>(four, high), ones));
      keep_order(sums[i][0], sums[i][1]);
    }
  }
#pragma GCC unroll 8
  for (std::size_t i = 0; i < M; ++i) {
#pragma GCC unroll 8
    for (std::size_t h = 0; h < 2; ++h)
      store_half(p.y + (r + i) * p.y_stride + v * kLanes + h * kHalfLanes, sums[i][h]);
  }
}

template <InVectors kWhich, std::size_t M>
void pairs_rows(const ByteProducts& p, std::size_t r, std::size_t v, std::size_t span) {
  if (span < 4) return single_pairs_tile<kWhich, M>(p, r, v);
  pairs_tile<kWhich, M>(p, r, v, span);
}

template <InVectors kWhich>
void all_pairs(const ByteProducts& p, std::size_t span) {
  constexpr std::size_t kTileRows = 5;
  for (std::size_t v = 0; v < p.vectors; ++v) {
    std::size_t r = 0;
    for (; r + kTileRows <= p.rows; r += kTileRows) pairs_rows<kWhich, kTileRows>(p, r, v, span);
    for (; r + 2 <= p.rows; r += 2) pairs_rows<kWhich, 2>(p, r, v, span);
    if (r < p.rows) pairs_rows<kWhich, 1>(p, r, v, span);
  }
}

// Words: bytes widened, four columns of four terms a register; each column's sum lies in two lanes until the
// end.

constexpr std::size_t kQuarters = 4, kQuarterBytes = kVectorBytes / kQuarters;

template <bool kSigned>
CRUMB_AVX2 inline __m256i widened(const std::byte* from) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return kSigned ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes);
}

/// The sums of pairs of lanes of two registers of four columns, column by column.
CRUMB_AVX2 inline __m256i columns_of(__m256i first, __m256i second) {
  return _mm256_permute4x64_epi64(_mm256_hadd_epi32(first, second), 0b11'01'10'00);
}

/// Rows as words: `words` has 4 * groups of each.
template <InVectors kWhich, std::size_t M>
CRUMB_AVX2 void words_tile(const ByteProducts& p, const std::int16_t* words, std::size_t r, std::size_t v) {
  constexpr bool kSigned = kWhich == InVectors::kWeights;
  __m256i sums[M][kQuarters];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < M; ++i) {
#pragma GCC unroll 8
    for (std::size_t q = 0; q < kQuarters; ++q) sums[i][q] = _mm256_setzero_si256();
  }
  const std::byte* vector = p.vector + v * p.vector_step();
  const std::size_t width = p.groups * kGroup;
  for (std::size_t g = 0; g < p.groups; ++g, words += kGroup, vector += kVectorBytes) {
    __m256i four[M];
#pragma GCC unroll 8
    for (std::size_t i = 0; i < M; ++i) {
      std::int64_t terms = 0;
      std::memcpy(&terms, words + i * width, sizeof terms);
      four[i] = _mm256_set1_epi64x(terms);
    }
#pragma GCC unroll 8
    for (std::size_t q = 0; q < kQuarters; ++q) {
      const __m256i columns = widened<kSigned>(vector + q * kQuarterBytes);
#pragma GCC unroll 8
      for (std::size_t i = 0; i < M; ++i) {
        sums[i][q] = _mm256_add_epi32(sums[i][q], _mm256_madd_epi16(columns, four[i]));
        asm("" : "+x"(sums[i][q]));
      }
    }
  }
#pragma GCC unroll 8
  for (std::size_t i = 0; i < M; ++i) {
#pragma GCC unroll 8
    for (std::size_t h = 0; h < 2; ++h) {
      const std::size_t lane = v * kLanes + h * kHalfLanes;
      const __m256i made = columns_of(sums[i][2 * h], sums[i][2 * h + 1]);
      store_half(p.y + (r + i) * p.y_stride + lane, _mm256_add_epi32(made, start_of<kWhich>(p, r + i, lane)));
    }
  }
}

template <InVectors kWhich>
void all_words(const ByteProducts& p) {
  constexpr std::size_t kTileRows = 3;
  const std::size_t width = p.groups * kGroup;
  std::vector<std::int16_t> words(kTileRows * width);
  for (std::size_t r = 0; r < p.rows; r += kTileRows) {
    const std::size_t count = std::min(kTileRows, p.rows - r);
    for (std::size_t i = 0; i < count; ++i) {
      const std::byte* const row = p.row + (r + i) * p.row_stride;
      for (std::size_t k = 0; k < width; ++k) {
        words[i * width + k] = kWhich == InVectors::kCodes ? std::int16_t{static_cast<std::int8_t>(row[k])}
                                                           : std::int16_t{static_cast<std::uint8_t>(row[k])};
      }
    }
    for (std::size_t v = 0; v < p.vectors; ++v) {
      if (count == kTileRows) {
        words_tile<kWhich, kTileRows>(p, words.data(), r, v);
        continue;
      }
      for (std::size_t i = 0; i < count; ++i) words_tile<kWhich, 1>(p, words.data() + i * width, r + i, v);
    }
  }
}

}  // namespace

void multiply_words_avx2(InVectors which, const ByteProducts& p) {
  if (which == InVectors::kWeights) {
    all_words<InVectors::kWeights>(p);
  } else {
    all_words<InVectors::kCodes>(p);
  }
}

void multiply_pairs_avx2(InVectors which, const ByteProducts& p, std::size_t span) {
  if (which == InVectors::kWeights) {
    all_pairs<InVectors::kWeights>(p, span);
  } else {
    all_pairs<InVectors::kCodes>(p, span);
  }
}

}  // namespace crumb::runtime::integer

#else

namespace crumb::runtime::integer {
void multiply_words_avx2(InVectors which, const ByteProducts& products) {
  multiply_bytes_ref(which, products);
}
void multiply_pairs_avx2(InVectors which, const ByteProducts& products, std::size_t) {
  multiply_bytes_ref(which, products);
}
}  // namespace crumb::runtime::integer

#endif
