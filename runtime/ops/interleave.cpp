#include "runtime/ops/interleave.h"

#include <algorithm>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace crumb::runtime {
namespace {

#if defined(__x86_64__)

template <class T>
__m128i first_halves(__m128i a, __m128i b) {
  return sizeof(T) == 1   ? _mm_unpacklo_epi8(a, b)
         : sizeof(T) == 2 ? _mm_unpacklo_epi16(a, b)
                          : _mm_unpacklo_epi32(a, b);
}
template <class T>
__m128i second_halves(__m128i a, __m128i b) {
  return sizeof(T) == 1   ? _mm_unpackhi_epi8(a, b)
         : sizeof(T) == 2 ? _mm_unpackhi_epi16(a, b)
                          : _mm_unpackhi_epi32(a, b);
}

/// kRows rows, a power of two, as far as whole vectors go; returns how many elements of each that is. Rows in
/// the first and the second half are brought together, until their elements lie as they are written.
template <class T, std::size_t kRows>
std::size_t interleave_vectors(const T* from, std::size_t apart, std::size_t count, T* to) {
  constexpr std::size_t kInVector = sizeof(__m128i) / sizeof(T);
  std::size_t i = 0;
  for (; i + kInVector <= count; i += kInVector) {
    __m128i rows[kRows], halves[kRows];
    for (std::size_t r = 0; r < kRows; ++r)
      rows[r] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + r * apart + i));
    for (std::size_t left = kRows; left > 1; left /= 2) {
      for (std::size_t r = 0; r < kRows / 2; ++r) {
        halves[2 * r] = first_halves<T>(rows[r], rows[r + kRows / 2]);
        halves[2 * r + 1] = second_halves<T>(rows[r], rows[r + kRows / 2]);
      }
      std::copy_n(halves, kRows, rows);
    }
    for (std::size_t r = 0; r < kRows; ++r)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i * kRows + r * kInVector), rows[r]);
  }
  return i;
}

template <class T>
std::size_t interleave_some(const T* from, std::size_t apart, std::size_t rows, std::size_t count, T* to) {
  switch (rows) {
    case 2: return interleave_vectors<T, 2>(from, apart, count, to);
    case 4: return interleave_vectors<T, 4>(from, apart, count, to);
    case 8: return interleave_vectors<T, 8>(from, apart, count, to);
    default: return 0;
  }
}

#else

template <class T>
std::size_t interleave_some(const T*, std::size_t, std::size_t, std::size_t, T*) {
  return 0;
}

#endif

template <class T>
void interleave_any(const T* from, std::size_t apart, std::size_t rows, std::size_t count, T* to) {
  if (rows == 1) {
    std::copy_n(from, count, to);
    return;
  }
  const std::size_t done = interleave_some(from, apart, rows, count, to);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t i = done; i < count; ++i) to[i * rows + r] = from[r * apart + i];
}

}  // namespace

void interleave(const std::uint32_t* from, std::size_t apart, std::size_t rows, std::size_t count,
                std::uint32_t* to) {
  interleave_any(from, apart, rows, count, to);
}

void interleave(const std::uint16_t* from, std::size_t apart, std::size_t rows, std::size_t count,
                std::uint16_t* to) {
  interleave_any(from, apart, rows, count, to);
}

void interleave(const std::uint8_t* from, std::size_t apart, std::size_t rows, std::size_t count,
                std::uint8_t* to) {
  interleave_any(from, apart, rows, count, to);
}

}  // namespace crumb::runtime
