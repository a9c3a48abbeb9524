// multiply_terms() with AVX-512. The instruction set is named function by function, so that nothing inline of
// the standard library is compiled for it.
#include "runtime/exact/products.h"
#include "runtime/exact/term_products.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define CRUMB_TERMS __attribute__((target("avx512f,avx512vl,avx512dq,avx2,fma")))

namespace crumb::runtime::exact {
namespace {

using Vector = __m512;
using Mask = __mmask16;
constexpr std::size_t kWidth = 16;
constexpr std::size_t kTileVectors = 4;  // times kTileOutputs sums in registers, next to x and w
constexpr std::size_t kLongVectors = 8;  // of one output or two
constexpr std::size_t kTreeVectors = 4;  // five times in registers
constexpr std::size_t kHeldOutputs = 2;  // whose weights are held in registers, nine each

CRUMB_TERMS inline Mask mask_of(std::size_t count) { return static_cast<Mask>((1U << count) - 1); }
CRUMB_TERMS inline Vector load(const float* from) { return _mm512_loadu_ps(from); }
CRUMB_TERMS inline Vector load_some(const float* from, Mask mask) {
  return _mm512_maskz_loadu_ps(mask, from);
}
CRUMB_TERMS __attribute__((always_inline)) inline void fetch(const float* from) {
  _mm_prefetch(reinterpret_cast<const char*>(from), _MM_HINT_T0);
}
CRUMB_TERMS inline void store(float* to, Vector v) { _mm512_storeu_ps(to, v); }
CRUMB_TERMS inline void store_some(float* to, Mask mask, Vector v) { _mm512_mask_storeu_ps(to, mask, v); }
CRUMB_TERMS inline Vector broadcast(float value) { return _mm512_set1_ps(value); }
CRUMB_TERMS inline Vector multiply_add(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
CRUMB_TERMS inline Vector add(Vector a, Vector b) { return _mm512_add_ps(a, b); }

CRUMB_TERMS inline Vector multiply(Vector a, Vector b) { return _mm512_mul_ps(a, b); }
/// a > r ? a : r, so that r stays where it is NaN or equal; smaller_or() likewise.
CRUMB_TERMS inline Vector larger_or(Vector a, Vector r) { return _mm512_maskz_max_ps(0xFFFF, a, r); }
CRUMB_TERMS inline Vector smaller_or(Vector a, Vector r) { return _mm512_maskz_min_ps(0xFFFF, a, r); }
/// `then` where r < 0, else r.
CRUMB_TERMS inline Vector where_negative(Vector r, Vector then) {
  return _mm512_mask_mov_ps(r, _mm512_cmp_ps_mask(r, _mm512_setzero_ps(), _CMP_LT_OQ), then);
}
/// The compiler may not read the memory again instead, which takes longer where it is not aligned.
CRUMB_TERMS inline Vector in_register(Vector v) {
  asm("" : "+v"(v));
  return v;
}

}  // namespace

#include "runtime/exact/term_products_loops.inc"

void multiply_terms_avx512(const TermProducts& products) { multiply_terms_here(products); }

}  // namespace crumb::runtime::exact

#else

namespace crumb::runtime::exact {
void multiply_terms_avx512(const TermProducts& products) { multiply_terms_ref(products); }
}  // namespace crumb::runtime::exact

#endif
