// row_sums.h with AVX2.
//
// vpmaddubsw wants one side without a sign: it takes |level|, and q with the level's sign. Two products are
// at most 2 * 128 * 127 = 32,512, which 16 bits hold.
#include "runtime/fast/row_sums.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#define CRUMB_AVX2 __attribute__((target("avx2")))

namespace crumb::runtime {
namespace {

constexpr std::size_t kWide = 32;     // terms of an instruction
constexpr std::size_t kTogether = 8;  // blocks whose sums leave their registers together

CRUMB_AVX2 inline __m256i load(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}

CRUMB_AVX2 inline __m256i table_of(const LevelTable& by) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(by.data())));
}

/// Levels, a byte each.
struct Bytes {
  const std::int8_t* levels;
  CRUMB_AVX2 __m256i at(std::size_t k) const { return load(levels + k); }
};

/// Levels of codes of four bits: sixteen bytes give those of their low halves, then those of their high ones.
struct Nibbles {
  __m256i table;
  const std::uint8_t* packed;
  CRUMB_AVX2 __m256i at(std::size_t k) const {
    const __m128i both = _mm_loadu_si128(reinterpret_cast<const __m128i*>(packed + k / 2));
    const __m256i halves = _mm256_set_m128i(_mm_srli_epi16(both, 4), both);
    return _mm256_shuffle_epi8(table, _mm256_and_si256(halves, _mm256_set1_epi8(15)));
  }
};

template <typename Weights>
CRUMB_AVX2 inline __m256i part_of(const std::int8_t* q, const Weights& weights, std::size_t k) {
  const __m256i w = weights.at(k);
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(load(q + k), w));
  return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

/// Eight parts of the sum over whole instructions.
template <typename Weights>
CRUMB_AVX2 inline __m256i parts_of(const std::int8_t* q, const Weights& weights, std::size_t begin,
                                   std::size_t terms) {
  __m256i sum = _mm256_setzero_si256();
  for (std::size_t k = begin; k < begin + terms; k += kWide)
    sum = _mm256_add_epi32(sum, part_of(q, weights, k));
  return sum;
}

CRUMB_AVX2 inline std::int32_t total(__m256i parts) {
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(parts), _mm256_extracti128_si256(parts, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1));
  return _mm_cvtsi128_si32(sum);
}

/// Adds up whole blocks, eight at a time, and returns the number of terms done. kOne: one instruction takes a
/// block.
template <bool kOne, typename Weights>
CRUMB_AVX2 inline std::size_t eights_of(const std::int8_t* q, const Weights& weights, std::size_t terms,
                                        std::size_t block, std::int32_t* sums) {
  std::size_t at = 0;
  for (; at + kTogether * block <= terms; at += kTogether * block, sums += kTogether) {
    __m256i parts[kTogether];
#pragma GCC unroll 8
    for (std::size_t b = 0; b < kTogether; ++b)
      parts[b] = kOne ? part_of(q, weights, at + b * kWide) : parts_of(q, weights, at + b * block, block);
    const __m256i low =
        _mm256_hadd_epi32(_mm256_hadd_epi32(parts[0], parts[1]), _mm256_hadd_epi32(parts[2], parts[3]));
    const __m256i high =
        _mm256_hadd_epi32(_mm256_hadd_epi32(parts[4], parts[5]), _mm256_hadd_epi32(parts[6], parts[7]));
    const __m256i all = _mm256_add_epi32(_mm256_permute2x128_si256(low, high, 0x20),
                                         _mm256_permute2x128_si256(low, high, 0x31));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums), all);
  }
  return at;
}

template <typename Weights>
CRUMB_AVX2 inline std::size_t sums_of_eights(const std::int8_t* q, const Weights& weights, std::size_t terms,
                                             std::size_t block, std::int32_t* sums) {
  return block == kWide ? eights_of<true>(q, weights, terms, block, sums)
                        : eights_of<false>(q, weights, terms, block, sums);
}

/// For blocks of sixteen terms: an instruction takes the terms of even index of two blocks, then those of odd
/// index.
CRUMB_AVX2 void sums_of_sixteens(const std::int8_t* halves, const Nibbles& weights, std::size_t terms,
                                 std::int32_t* sums) {
  for (std::size_t k = 0; k < terms; k += kWide, sums += 2) {
    const __m256i parts = part_of(halves, weights, k);
    const __m128i both = _mm_add_epi32(_mm256_castsi256_si128(parts), _mm256_extracti128_si256(parts, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(sums), _mm_hadd_epi32(both, both));
  }
}

}  // namespace

CRUMB_AVX2 void levels_of_avx2(const LevelTable& by, const std::uint8_t* codes, std::size_t count,
                               std::int8_t* levels) {
  const __m256i table = table_of(by);
  std::size_t i = 0;
  for (; i + kWide <= count; i += kWide)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(levels + i), _mm256_shuffle_epi8(table, load(codes + i)));
  levels_of_ref(by, codes + i, count - i, levels + i);
}

CRUMB_AVX2 void block_sums_avx2(const std::int8_t* q, const std::int8_t* levels, std::size_t terms,
                                std::size_t block, std::int32_t* sums) {
  const Bytes weights{levels};
  std::size_t at = block % kWide == 0 ? sums_of_eights(q, weights, terms, block, sums) : 0;
  for (sums += at / block; at < terms; at += block) {
    const std::size_t count = std::min(block, terms - at), whole = count / kWide * kWide;
    std::int32_t rest = 0;
    for (std::size_t k = at + whole; k < at + count; ++k) rest += q[k] * levels[k];
    *sums++ = total(parts_of(q, weights, at, whole)) + rest;
  }
}

CRUMB_AVX2 void nibble_sums_avx2(const LevelTable& by, const std::int8_t* halves, const std::uint8_t* packed,
                                 std::size_t terms, std::size_t block, std::int32_t* sums) {
  const Nibbles weights{table_of(by), packed};
  if (block == kNibbleTerms / 2) return sums_of_sixteens(halves, weights, terms, sums);
  std::size_t at = sums_of_eights(halves, weights, terms, block, sums);
  for (sums += at / block; at < terms; at += block)
    *sums++ = total(parts_of(halves, weights, at, std::min(block, terms - at)));
}

}  // namespace crumb::runtime
#else
namespace crumb::runtime {

void levels_of_avx2(const LevelTable& by, const std::uint8_t* codes, std::size_t count, std::int8_t* levels) {
  levels_of_ref(by, codes, count, levels);
}

void block_sums_avx2(const std::int8_t* q, const std::int8_t* levels, std::size_t terms, std::size_t block,
                     std::int32_t* sums) {
  block_sums_ref(q, levels, terms, block, sums);
}

void nibble_sums_avx2(const LevelTable& by, const std::int8_t* halves, const std::uint8_t* packed,
                      std::size_t terms, std::size_t block, std::int32_t* sums) {
  nibble_sums_ref(by, halves, packed, terms, block, sums);
}

}  // namespace crumb::runtime
#endif
