// byte_rows.h with AVX2. The instruction set is named function by function, so that nothing inline of the
// standard library is compiled for it.
#include "runtime/fast/byte_rows.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define CRUMB_AVX2 __attribute__((target("avx2")))

namespace crumb::runtime {
namespace {

constexpr std::size_t kFloats = 8, kBytes = 32;

CRUMB_AVX2 inline __m256i rounded(const float* x, __m256 inverse) {
  return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), inverse));  // to nearest, ties to even
}

CRUMB_AVX2 inline std::int32_t total(__m256i parts) {
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(parts), _mm256_extracti128_si256(parts, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1));
  return _mm_cvtsi128_si32(sum);
}

}  // namespace

CRUMB_AVX2 std::uint32_t largest_bits_avx2(const float* x, std::size_t count) {
  const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
  __m256i most = _mm256_setzero_si256();
  std::size_t k = 0;
  for (; k + kFloats <= count; k += kFloats) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + k));
    most = _mm256_max_epu32(most, _mm256_and_si256(bits, magnitude));
  }
  alignas(32) std::uint32_t lanes[kFloats];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), most);
  std::uint32_t made = largest_bits_ref(x + k, count - k);
  for (const std::uint32_t lane : lanes) made = lane > made ? lane : made;
  return made;
}

CRUMB_AVX2 void to_bytes_avx2(const float* x, float inverse, std::size_t count, std::int8_t* q) {
  const __m256 factor = _mm256_set1_ps(inverse);
  const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);  // packing works in halves
  std::size_t k = 0;
  for (; k + kBytes <= count; k += kBytes) {
    const __m256i low = _mm256_packs_epi32(rounded(x + k, factor), rounded(x + k + kFloats, factor));
    const __m256i high =
        _mm256_packs_epi32(rounded(x + k + 2 * kFloats, factor), rounded(x + k + 3 * kFloats, factor));
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), in_order);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(q + k), bytes);
  }
  to_bytes_ref(x + k, inverse, count - k, q + k);
}

CRUMB_AVX2 void sum_blocks_avx2(const std::int8_t* q, std::size_t terms, std::size_t block,
                                std::int32_t* sums) {
  if (block % kBytes != 0 && block < terms) return sum_blocks_ref(q, terms, block, sums);
  const __m256i ones = _mm256_set1_epi8(1), pairs = _mm256_set1_epi16(1);
  for (std::size_t begin = 0; begin < terms; begin += block) {
    const std::size_t end = terms - begin < block ? terms : begin + block;
    __m256i parts = _mm256_setzero_si256();
    std::size_t k = begin;
    for (; k + kBytes <= end; k += kBytes) {
      const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(q + k));
      parts = _mm256_add_epi32(parts, _mm256_madd_epi16(_mm256_maddubs_epi16(ones, bytes), pairs));
    }
    std::int32_t sum = total(parts);
    for (; k < end; ++k) sum += q[k];
    *sums++ = sum;
  }
}

}  // namespace crumb::runtime
#else
namespace crumb::runtime {

std::uint32_t largest_bits_avx2(const float* x, std::size_t count) { return largest_bits_ref(x, count); }
void to_bytes_avx2(const float* x, float inverse, std::size_t count, std::int8_t* q) {
  to_bytes_ref(x, inverse, count, q);
}
void sum_blocks_avx2(const std::int8_t* q, std::size_t terms, std::size_t block, std::int32_t* sums) {
  sum_blocks_ref(q, terms, block, sums);
}

}  // namespace crumb::runtime
#endif
