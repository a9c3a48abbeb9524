// e4m3 scales with AVX2 and F16C: a pattern's fields, moved to those of a float16, are the value times 2^-8,
// subnormal ones too. The instruction set is named function by function, so that nothing inline of the
// standard library is compiled for it.
#include "formats/number/scale_bytes.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define CRUMB_AVX2 __attribute__((target("avx2,f16c")))

namespace crumb {

CRUMB_AVX2 uint64_t decode_e4m3_avx2(const std::byte* bytes, uint64_t count, float* out) {
  constexpr uint64_t kEight = 8;
  const __m128i magnitudes = _mm_set1_epi16(0x7F), signs = _mm_set1_epi16(0x80);
  const __m256 factor = _mm256_set1_ps(256), nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FC00000));
  uint64_t i = 0;
  for (; i + kEight <= count; i += kEight) {
    const __m128i pattern = _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes + i)));
    const __m128i magnitude = _mm_and_si128(pattern, magnitudes);
    const __m128i half =
        _mm_or_si128(_mm_slli_epi16(magnitude, 7), _mm_slli_epi16(_mm_and_si128(pattern, signs), 8));
    const __m256 value = _mm256_mul_ps(_mm256_cvtph_ps(half), factor);
    const __m256i is_nan = _mm256_cvtepi16_epi32(_mm_cmpeq_epi16(magnitude, magnitudes));
    _mm256_storeu_ps(out + i, _mm256_blendv_ps(value, nan, _mm256_castsi256_ps(is_nan)));
  }
  return i;
}

}  // namespace crumb
#else
namespace crumb {
uint64_t decode_e4m3_avx2(const std::byte*, uint64_t, float*) { return 0; }
}  // namespace crumb
#endif
