// multiply_codes() with AVX2: eight codes become eight terms, the partial sums lie in two vectors. The
// instruction set is named function by function, so that nothing inline of the standard library is compiled
// for it.
#include "runtime/exact/coded_products.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#define CRUMB_AVX2 __attribute__((target("avx2,fma")))
#define CRUMB_INLINE CRUMB_AVX2 inline __attribute__((always_inline))

namespace crumb::runtime::exact {
namespace {

constexpr std::size_t kHalf = kPartialSums / 2;

CRUMB_INLINE __m256 scaled(__m256 values, __m256 scale, const CodedRows& w, std::size_t block) {
  if (!w.zeros) return _mm256_mul_ps(values, scale);
  const __m256 zero = _mm256_broadcast_ss(w.zeros + block);
  if (w.adds_zeros) return _mm256_add_ps(_mm256_mul_ps(values, scale), zero);
  return _mm256_mul_ps(_mm256_sub_ps(values, zero), scale);
}

/// Codes of up to four bits, by tables of eight values.
template <int Bits>
struct Narrow {
  struct Block {
    __m256 low, high;  ///< of codes below 8, and of the others
  };
  static constexpr std::size_t kStep = Bits;  // bytes of 8 codes

  __m256 low, high;
  __m256i shifts;

  CRUMB_INLINE explicit Narrow(const CodedRows& w) {
    alignas(32) float all[16];
    for (int i = 0; i < 16; ++i) all[i] = w.values[i & ((1 << Bits) - 1)];
    low = _mm256_load_ps(all);
    high = _mm256_load_ps(all + kHalf);
    shifts = _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(Bits));
  }
  CRUMB_INLINE Block block(const CodedRows& w, std::size_t index) const {
    const __m256 scale = _mm256_broadcast_ss(w.scales + index);
    return {scaled(low, scale, w, index), Bits == 4 ? scaled(high, scale, w, index) : low};
  }
  /// Of the 32 bits in which eight codes begin.
  CRUMB_INLINE __m256 values(std::int32_t word, const Block& block) const {
    const __m256i codes = _mm256_srlv_epi32(_mm256_set1_epi32(word), shifts);
    const __m256 value = _mm256_permutevar8x32_ps(block.low, codes);
    if constexpr (Bits < 4) return value;
    const __m256 upper = _mm256_castsi256_ps(_mm256_slli_epi32(codes, 28));  // the fourth bit as the sign
    return _mm256_blendv_ps(value, _mm256_permutevar8x32_ps(block.high, codes), upper);
  }
  CRUMB_INLINE __m256 values(const std::uint8_t* from, const Block& block) const {
    std::int32_t word;
    std::memcpy(&word, from, sizeof word);
    return values(word, block);
  }
  static constexpr std::size_t kRead = sizeof(std::int32_t);
};

#include "runtime/exact/float_bytes_avx2.inc"

using ByteKind = ByteValues::Kind;

/// Codes of eight bits, by conversion.
template <ByteKind kBytes>
struct Bytes {
  struct Block {
    __m256 scale;
    const CodedRows* w;
    std::size_t index;
  };
  static constexpr std::size_t kStep = 8, kRead = 8;

  __m256 offset;
  FloatBytes floats;

  CRUMB_INLINE explicit Bytes(const CodedRows& w)
      : offset(_mm256_set1_ps(w.bytes.offset)), floats(w.bytes, w.values) {}
  CRUMB_INLINE Block block(const CodedRows& w, std::size_t index) const {
    return {_mm256_broadcast_ss(w.scales + index), &w, index};
  }
  CRUMB_INLINE __m256 values(const std::uint8_t* from, const Block& block) const {
    const __m128i codes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
    if constexpr (kBytes == ByteKind::kFloat)
      return scaled(floats.of(_mm256_cvtepu8_epi32(codes)), block.scale, *block.w, block.index);
    const __m256i wide =
        kBytes == ByteKind::kSigned ? _mm256_cvtepi8_epi32(codes) : _mm256_cvtepu8_epi32(codes);
    const __m256 value = _mm256_add_ps(_mm256_cvtepi32_ps(wide), offset);
    return scaled(value, block.scale, *block.w, block.index);
  }
};

/// The sum of sixteen parts in the order of fold().
CRUMB_INLINE float folded(__m256 low, __m256 high) {
  const __m256 eight = _mm256_add_ps(low, high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

/// Sixteen terms of a row of codes that lie in a buffer, those behind the end as zeros.
template <class Codes>
CRUMB_AVX2 void last_terms(const Codes& codes, const typename Codes::Block& block, const std::uint8_t* from,
                           std::size_t bytes, std::size_t terms, float* made) {
  std::uint8_t buffer[32] = {};
  std::memcpy(buffer, from, bytes);
  for (std::size_t half = 0; half < 2; ++half)
    _mm256_storeu_ps(made + half * kHalf, codes.values(buffer + half * Codes::kStep, block));
  for (std::size_t i = terms; i < kPartialSums; ++i) made[i] = 0;
}

/// R rows of codes from n on, M rows of x.
template <class Codes, std::size_t R, std::size_t M>
CRUMB_AVX2 void rows(const Products& p, const CodedRows& w, const Codes& codes, std::size_t n) {
  const std::size_t blocks = (p.terms + w.block - 1) / w.block;
  const std::size_t whole = p.terms / kPartialSums * kPartialSums;
  const std::uint8_t* const from = w.codes + n * w.row_bytes;
  const auto readable = static_cast<std::size_t>(w.end - from - (R - 1) * w.row_bytes);
  const std::size_t ahead = R * w.row_bytes <= 16384 ? R * w.row_bytes : 2048;
  __m256 sums[R][M][2];
  for (auto& row : sums)
    for (auto& sum : row) sum[0] = sum[1] = _mm256_setzero_ps();
  std::size_t at = 0;  // in bytes of a row
  for (std::size_t b = 0, k = 0; b < blocks; ++b) {
    typename Codes::Block block[R];
    for (std::size_t r = 0; r < R; ++r) block[r] = codes.block(w, (n + r) * blocks + b);
    const std::size_t end = p.terms - k < w.block ? p.terms : k + w.block;
    for (; k < end && k < whole && at + Codes::kStep + Codes::kRead <= readable;
         k += kPartialSums, at += 2 * Codes::kStep) {
      for (std::size_t r = 0; r < R; ++r) {
        const std::uint8_t* const row = from + r * w.row_bytes + at;
        _mm_prefetch(reinterpret_cast<const char*>(row + ahead), _MM_HINT_T0);
        for (std::size_t half = 0; half < 2; ++half) {
          const __m256 values = codes.values(row + half * Codes::kStep, block[r]);
          for (std::size_t m = 0; m < M; ++m)
            sums[r][m][half] = _mm256_fmadd_ps(_mm256_loadu_ps(p.x + m * p.x_stride + k + half * kHalf),
                                               values, sums[r][m][half]);
        }
      }
    }
    for (; k < end; k += kPartialSums, at += 2 * Codes::kStep) {
      const std::size_t left = p.terms - k, count = left < kPartialSums ? left : kPartialSums;
      const std::size_t bytes = w.row_bytes - at < 2 * Codes::kStep ? w.row_bytes - at : 2 * Codes::kStep;
      for (std::size_t r = 0; r < R; ++r) {
        float values[kPartialSums];
        last_terms(codes, block[r], from + r * w.row_bytes + at, bytes, count, values);
        for (std::size_t m = 0; m < M; ++m) {
          float x[kPartialSums] = {};
          std::memcpy(x, p.x + m * p.x_stride + k, count * sizeof(float));
          for (std::size_t half = 0; half < 2; ++half)
            sums[r][m][half] = _mm256_fmadd_ps(_mm256_loadu_ps(x + half * kHalf),
                                               _mm256_loadu_ps(values + half * kHalf), sums[r][m][half]);
        }
      }
    }
  }
  for (std::size_t r = 0; r < R; ++r)
    for (std::size_t m = 0; m < M; ++m)
      p.y[m * p.y_row + (n + r) * p.y_column] = folded(sums[r][m][0], sums[r][m][1]);
}

template <class Codes, std::size_t R, std::size_t M>
CRUMB_AVX2 void all_rows(const Products& p, const CodedRows& w) {
  const Codes codes(w);
  std::size_t n = 0;
  for (; n + R <= p.columns; n += R) rows<Codes, R, M>(p, w, codes, n);
  for (; n < p.columns; ++n) rows<Codes, 1, M>(p, w, codes, n);
}

/// As many rows of codes as leave registers for their tables.
template <class Codes>
void some_rows(const Products& p, const CodedRows& w) {
  static_assert(kFewRows == 4);
  switch (p.rows) {
    case 1: return all_rows<Codes, 3, 1>(p, w);
    case 2: return all_rows<Codes, 2, 2>(p, w);
    case 4: return all_rows<Codes, 1, 4>(p, w);
    default: break;
  }
  all_rows<Codes, 2, 2>(some_rows_of(p, 0, 2), w);
  all_rows<Codes, 3, 1>(some_rows_of(p, 2, 1), w);
}

}  // namespace

void multiply_codes_avx2(const Products& p, const CodedRows& w) {
  if (p.terms == 0) return multiply_codes_ref(p, w);
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

}  // namespace crumb::runtime::exact

#else

namespace crumb::runtime::exact {
void multiply_codes_avx2(const Products& products, const CodedRows& w) { multiply_codes_ref(products, w); }
}  // namespace crumb::runtime::exact

#endif
