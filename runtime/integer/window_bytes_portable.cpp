// What any processor does (x86-64 has SSE2), and the choice among all.
#include <algorithm>

#include "base/processor.h"
#include "runtime/integer/byte_products.h"
#include "runtime/integer/window_bytes.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace crumb::runtime::integer {

void interleave_portable(const std::uint8_t* const rows[4], std::size_t vectors, std::uint8_t* to,
                         std::size_t step) {
  for (std::size_t v = 0; v < vectors; ++v, to += step) {
#if defined(__x86_64__)
    const auto load = [&](std::size_t i) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[i] + v * kLanes));
    };
    const __m128i a = load(0), b = load(1), c = load(2), d = load(3);
    const __m128i low = _mm_unpacklo_epi8(a, b), high = _mm_unpackhi_epi8(a, b);
    const __m128i low2 = _mm_unpacklo_epi8(c, d), high2 = _mm_unpackhi_epi8(c, d);
    auto* const at = reinterpret_cast<__m128i*>(to);
    _mm_storeu_si128(at, _mm_unpacklo_epi16(low, low2));
    _mm_storeu_si128(at + 1, _mm_unpackhi_epi16(low, low2));
    _mm_storeu_si128(at + 2, _mm_unpacklo_epi16(high, high2));
    _mm_storeu_si128(at + 3, _mm_unpackhi_epi16(high, high2));
#else
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      for (std::size_t i = 0; i < kGroup; ++i) to[lane * kGroup + i] = rows[i][v * kLanes + lane];
    }
#endif
  }
}

void interleave(const std::uint8_t* const rows[4], std::size_t vectors, std::uint8_t* to, std::size_t step) {
  static const bool is_wide = may_use(Isa::kAvx512);
  if (is_wide && vectors == kMostVectors) return interleave_avx512(rows, to, step);
  interleave_portable(rows, vectors, to, step);
}

void slide_portable(const Slide& window, std::int32_t* sums, std::size_t count) {
  std::fill_n(sums, count, window.start);
  for (std::size_t t = 0; t < window.terms; ++t) {
    const std::uint8_t* const from = window.x + window.offsets[t];
    const std::int8_t weight = window.weights[t];
    for (std::size_t i = 0; i < count; ++i) sums[i] += weight * from[i];
  }
}

void slide(const Slide& window, std::int32_t* sums, std::size_t count) {
  static const auto loop = may_use(Isa::kAvx2) ? slide_avx2 : slide_portable;
  loop(window, sums, count);
}

}  // namespace crumb::runtime::integer
