// slide() with AVX2: the sums of up to 32 positions stay in registers over all terms.
#include "runtime/integer/window_bytes.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define CRUMB_AVX2 __attribute__((target("avx2")))

namespace crumb::runtime::integer {
namespace {

constexpr std::size_t kSums = 8;  // of a register

template <std::size_t N>
CRUMB_AVX2 void slide_block(const Slide& window, std::size_t at, std::int32_t* sums) {
  __m256i own[N];
#pragma GCC unroll 4
  for (std::size_t j = 0; j < N; ++j) own[j] = _mm256_set1_epi32(window.start);
  for (std::size_t t = 0; t < window.terms; ++t) {
    const std::uint8_t* const from = window.x + window.offsets[t] + at;
    const __m256i weight = _mm256_set1_epi32(window.weights[t]);
#pragma GCC unroll 4
    for (std::size_t j = 0; j < N; ++j) {
      const __m256i values =
          _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + j * kSums)));
      // Bytes and weights as words of 16 bits with zeros between: half the work of 32 bits by 32.
      own[j] = _mm256_add_epi32(own[j], _mm256_madd_epi16(values, weight));
    }
  }
#pragma GCC unroll 4
  for (std::size_t j = 0; j < N; ++j)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + at + j * kSums), own[j]);
}

}  // namespace

void slide_avx2(const Slide& window, std::int32_t* sums, std::size_t count) {
  std::size_t at = 0;
  for (; at + 3 * kSums < count; at += 4 * kSums) slide_block<4>(window, at, sums);
  for (; at < count; at += kSums) slide_block<1>(window, at, sums);
}

}  // namespace crumb::runtime::integer

#else

namespace crumb::runtime::integer {
void slide_avx2(const Slide& window, std::int32_t* sums, std::size_t count) {
  slide_portable(window, sums, count);
}
}  // namespace crumb::runtime::integer

#endif
