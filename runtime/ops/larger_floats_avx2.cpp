// largest_of_taps() with AVX2. The instruction set is named function by function, so that nothing inline of
// the standard library is compiled for it.
#include "runtime/ops/larger_floats.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define CRUMB_LARGER __attribute__((target("avx2")))

namespace crumb::runtime {
namespace {

using LargerVector = __m256;
constexpr std::size_t kLargerWidth = 8;

CRUMB_LARGER inline LargerVector load_each(const float* from) { return _mm256_loadu_ps(from); }
CRUMB_LARGER inline LargerVector load_every_second(const float* from) {
  const __m256 low = _mm256_loadu_ps(from), high = _mm256_loadu_ps(from + kLargerWidth - 1);
  const __m256 halves = _mm256_shuffle_ps(low, high, 0xD8);  // elements 0 2 | 8 10 | 4 6 | 12 14
  return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(halves), 0xD8));
}
CRUMB_LARGER inline void store_larger(float* to, LargerVector v) { _mm256_storeu_ps(to, v); }
CRUMB_LARGER inline LargerVector lowest() { return _mm256_set1_ps(-__builtin_inff()); }
CRUMB_LARGER inline LargerVector larger(LargerVector a, LargerVector b) {
  const __m256 is_less = _mm256_cmp_ps(a, b, _CMP_NGE_UQ), is_number = _mm256_cmp_ps(a, a, _CMP_ORD_Q);
  return _mm256_blendv_ps(a, b, _mm256_and_ps(is_less, is_number));
}

CRUMB_LARGER inline LargerVector larger_number(LargerVector a, LargerVector b) {
  return _mm256_max_ps(b, a);  // the second operand where they are equal
}
using LargerNan = __m256;
CRUMB_LARGER inline LargerNan no_nan() { return _mm256_setzero_ps(); }
CRUMB_LARGER inline LargerNan or_nan(LargerNan nan, LargerVector v) {
  return _mm256_or_ps(nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
}
CRUMB_LARGER inline bool has_nan(LargerNan nan) { return _mm256_movemask_ps(nan) != 0; }

}  // namespace

#include "runtime/ops/larger_floats.inc"

CRUMB_LARGER void largest_of_taps_avx2(const RowTaps& from, std::size_t count, float* to) {
  const bool done = from.stride == 1   ? largest_of_row<1>(from, count, to)
                    : from.stride == 2 ? largest_of_row<2>(from, count, to)
                                       : false;
  if (!done) largest_of_taps_ref(from, count, to);
}

}  // namespace crumb::runtime

#else

namespace crumb::runtime {
void largest_of_taps_avx2(const RowTaps& from, std::size_t count, float* to) {
  largest_of_taps_ref(from, count, to);
}
}  // namespace crumb::runtime

#endif
