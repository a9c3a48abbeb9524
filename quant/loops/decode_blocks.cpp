#include "quant/loops/decode_blocks.h"

#include <algorithm>

#include "base/processor.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define CRUMB_AVX2 __attribute__((target("avx2")))
#endif

namespace crumb {
#if defined(__x86_64__)
namespace {

constexpr std::size_t kWide = 8;  // values in a register

/// kEight: codes are below 8, so one register holds their values.
template <bool kEight>
CRUMB_AVX2 void decode_avx2(const float* values, const std::uint8_t* codes, std::size_t n, std::size_t block,
                            const float* factors, float* out) {
  const __m256 low = _mm256_loadu_ps(values), high = _mm256_loadu_ps(values + kWide);
  for (std::size_t begin = 0; begin < n; begin += block) {
    const __m256 factor = _mm256_broadcast_ss(factors++);
    for (std::size_t i = begin; i < std::min(n, begin + block); i += kWide) {
      const __m256i code = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + i)));
      __m256 value = _mm256_permutevar8x32_ps(low, code);
      if constexpr (!kEight) {  // the fourth bit becomes the sign, which chooses one of the two registers
        const __m256 upper = _mm256_castsi256_ps(_mm256_slli_epi32(code, 28));
        value = _mm256_blendv_ps(value, _mm256_permutevar8x32_ps(high, code), upper);
      }
      _mm256_storeu_ps(out + i, _mm256_mul_ps(value, factor));
    }
  }
}

}  // namespace
#endif

bool decode_blocks([[maybe_unused]] const CodeGrid& grid, [[maybe_unused]] const std::uint8_t* codes,
                   [[maybe_unused]] std::size_t n, [[maybe_unused]] std::size_t block,
                   [[maybe_unused]] const float* factors, [[maybe_unused]] float* out) {
#if defined(__x86_64__)
  if (may_use(Isa::kAvx2)) {
    (grid.number->bits <= 3 ? decode_avx2<true> : decode_avx2<false>)(grid.values.data(), codes, n, block,
                                                                      factors, out);
    return true;
  }
#endif
  return false;
}

}  // namespace crumb
