// largest_of_taps() with AVX-512. The instruction set is named function by function, so that nothing inline
// of the standard library is compiled for it.
#include "runtime/ops/larger_floats.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define CRUMB_LARGER __attribute__((target("avx512f,avx512vl,avx512dq,avx2")))

namespace crumb::runtime {
namespace {

using LargerVector = __m512;
constexpr std::size_t kLargerWidth = 16;

CRUMB_LARGER inline LargerVector load_each(const float* from) { return _mm512_loadu_ps(from); }
CRUMB_LARGER inline LargerVector load_every_second(const float* from) {
  const __m512i places =
      _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31);  // the second half's odd
  return _mm512_permutex2var_ps(_mm512_loadu_ps(from), places, _mm512_loadu_ps(from + kLargerWidth - 1));
}
CRUMB_LARGER inline void store_larger(float* to, LargerVector v) { _mm512_storeu_ps(to, v); }
CRUMB_LARGER inline LargerVector lowest() { return _mm512_set1_ps(-__builtin_inff()); }
CRUMB_LARGER inline LargerVector larger(LargerVector a, LargerVector b) {
  const __mmask16 is_number = _mm512_cmp_ps_mask(a, a, _CMP_ORD_Q);
  return _mm512_mask_mov_ps(a, _mm512_mask_cmp_ps_mask(is_number, a, b, _CMP_NGE_UQ), b);
}

CRUMB_LARGER inline LargerVector larger_number(LargerVector a, LargerVector b) {
  return _mm512_maskz_max_ps(0xFFFF, b, a);  // the second operand where they are equal
}
using LargerNan = __mmask16;
CRUMB_LARGER inline LargerNan no_nan() { return 0; }
CRUMB_LARGER inline LargerNan or_nan(LargerNan nan, LargerVector v) {
  return static_cast<LargerNan>(nan | _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q));
}
CRUMB_LARGER inline bool has_nan(LargerNan nan) { return nan != 0; }

}  // namespace

#include "runtime/ops/larger_floats.inc"

CRUMB_LARGER void largest_of_taps_avx512(const RowTaps& from, std::size_t count, float* to) {
  const bool done = from.stride == 1   ? largest_of_row<1>(from, count, to)
                    : from.stride == 2 ? largest_of_row<2>(from, count, to)
                                       : false;
  if (!done) largest_of_taps_avx2(from, count, to);
}

}  // namespace crumb::runtime

#else

namespace crumb::runtime {
void largest_of_taps_avx512(const RowTaps& from, std::size_t count, float* to) {
  largest_of_taps_ref(from, count, to);
}
}  // namespace crumb::runtime

#endif
