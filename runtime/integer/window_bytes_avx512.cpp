// interleave() for 64 columns with AVX-512.
#include "runtime/integer/window_bytes.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define CRUMB_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#endif

namespace crumb::runtime::integer {

#if defined(__x86_64__)

CRUMB_AVX512 void interleave_avx512(const std::uint8_t* const rows[4], std::uint8_t* to, std::size_t step) {
  const __m512i a = _mm512_loadu_si512(rows[0]), b = _mm512_loadu_si512(rows[1]);
  const __m512i c = _mm512_loadu_si512(rows[2]), d = _mm512_loadu_si512(rows[3]);
  const __m512i low = _mm512_unpacklo_epi8(a, b), high = _mm512_unpackhi_epi8(a, b);
  const __m512i low2 = _mm512_unpacklo_epi8(c, d), high2 = _mm512_unpackhi_epi8(c, d);
  // Quarter q of the first has columns 16 * q to 16 * q + 3, of the second the next four, and so on.
  const __m512i first = _mm512_unpacklo_epi16(low, low2), second = _mm512_unpackhi_epi16(low, low2);
  const __m512i third = _mm512_unpacklo_epi16(high, high2), fourth = _mm512_unpackhi_epi16(high, high2);
  // Quarters 0 and 1, 2 and 3 of two; then those of four.
  const __m512i front = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const __m512i back = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  const __m512i near = _mm512_setr_epi64(0, 1, 2, 3, 8, 9, 10, 11);
  const __m512i far = _mm512_setr_epi64(4, 5, 6, 7, 12, 13, 14, 15);
  const __m512i front_low = _mm512_permutex2var_epi64(first, front, second);
  const __m512i front_high = _mm512_permutex2var_epi64(third, front, fourth);
  const __m512i back_low = _mm512_permutex2var_epi64(first, back, second);
  const __m512i back_high = _mm512_permutex2var_epi64(third, back, fourth);
  _mm512_storeu_si512(to, _mm512_permutex2var_epi64(front_low, near, front_high));
  _mm512_storeu_si512(to + step, _mm512_permutex2var_epi64(front_low, far, front_high));
  _mm512_storeu_si512(to + 2 * step, _mm512_permutex2var_epi64(back_low, near, back_high));
  _mm512_storeu_si512(to + 3 * step, _mm512_permutex2var_epi64(back_low, far, back_high));
}

#else

void interleave_avx512(const std::uint8_t* const rows[4], std::uint8_t* to, std::size_t step) {
  interleave_portable(rows, kMostVectors, to, step);
}

#endif

}  // namespace crumb::runtime::integer
