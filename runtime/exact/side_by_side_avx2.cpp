// side_by_side() with AVX2: eight rows of eight numbers at a time. The instruction set is named function by
// function, so that nothing inline of the standard library is compiled for it.
#include "runtime/exact/side_by_side.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define CRUMB_AVX2 __attribute__((target("avx2")))

namespace crumb::runtime::exact {
namespace {

constexpr std::size_t kEight = 8, kRows = 16;

#include "runtime/exact/transpose_avx2.inc"

/// Eight numbers of rows [first, first + 8).
CRUMB_AVX2 inline void transpose(const std::uint32_t* from, std::size_t stride, std::size_t first,
                                 std::size_t rows, std::uint32_t* out) {
  __m256i r[kEight];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kEight; ++i) {
    const std::size_t row = first + i < rows ? first + i : rows - 1;
    r[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + row * stride));
  }
  transpose_eight(r);
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kEight; ++i)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i * kRows), r[i]);
}

}  // namespace

CRUMB_AVX2 void side_by_side_avx2(const std::uint32_t* from, std::size_t stride, std::size_t rows,
                                  std::size_t count, std::uint32_t* out) {
  std::size_t i = 0;
  for (; i + kEight <= count; i += kEight)
    for (std::size_t first = 0; first < kRows; first += kEight)
      transpose(from + i, stride, first, rows, out + i * kRows + first);
  side_by_side_ref(from + i, stride, rows, count - i, out + i * kRows);
}

}  // namespace crumb::runtime::exact
#else
namespace crumb::runtime::exact {
void side_by_side_avx2(const std::uint32_t* from, std::size_t stride, std::size_t rows, std::size_t count,
                       std::uint32_t* out) {
  side_by_side_ref(from, stride, rows, count, out);
}
}  // namespace crumb::runtime::exact
#endif
