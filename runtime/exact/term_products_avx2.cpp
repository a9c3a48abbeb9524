// multiply_terms() with AVX2 and FMA. The instruction set is named function by function, so that nothing
// inline of the standard library is compiled for it.
#include "runtime/exact/products.h"
#include "runtime/exact/term_products.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define CRUMB_TERMS __attribute__((target("avx2,fma")))

namespace crumb::runtime::exact {
namespace {

using Vector = __m256;
using Mask = __m256i;
constexpr std::size_t kWidth = 8;
constexpr std::size_t kTileVectors = 2;  // times kTileOutputs sums in registers, next to x and w
constexpr std::size_t kLongVectors = 4;  // of one output or two
constexpr std::size_t kTreeVectors = 2;  // five times in registers
constexpr std::size_t kHeldOutputs = 1;  // whose weights are held in registers, nine each

CRUMB_TERMS inline Mask mask_of(std::size_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
CRUMB_TERMS inline Vector load(const float* from) { return _mm256_loadu_ps(from); }
CRUMB_TERMS inline Vector load_some(const float* from, Mask mask) { return _mm256_maskload_ps(from, mask); }
CRUMB_TERMS __attribute__((always_inline)) inline void fetch(const float* from) {
  _mm_prefetch(reinterpret_cast<const char*>(from), _MM_HINT_T0);
}
CRUMB_TERMS inline void store(float* to, Vector v) { _mm256_storeu_ps(to, v); }
CRUMB_TERMS inline void store_some(float* to, Mask mask, Vector v) { _mm256_maskstore_ps(to, mask, v); }
CRUMB_TERMS inline Vector broadcast(float value) { return _mm256_set1_ps(value); }
CRUMB_TERMS inline Vector multiply_add(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
CRUMB_TERMS inline Vector add(Vector a, Vector b) { return _mm256_add_ps(a, b); }

CRUMB_TERMS inline Vector multiply(Vector a, Vector b) { return _mm256_mul_ps(a, b); }
/// a > r ? a : r, so that r stays where it is NaN or equal; smaller_or() likewise.
CRUMB_TERMS inline Vector larger_or(Vector a, Vector r) { return _mm256_max_ps(a, r); }
CRUMB_TERMS inline Vector smaller_or(Vector a, Vector r) { return _mm256_min_ps(a, r); }
/// `then` where r < 0, else r.
CRUMB_TERMS inline Vector where_negative(Vector r, Vector then) {
  return _mm256_blendv_ps(r, then, _mm256_cmp_ps(r, _mm256_setzero_ps(), _CMP_LT_OQ));
}
/// The compiler may not read the memory again instead, which takes longer where it is not aligned.
CRUMB_TERMS inline Vector in_register(Vector v) {
  asm("" : "+x"(v));
  return v;
}

}  // namespace

#include "runtime/exact/term_products_loops.inc"

void multiply_terms_avx2(const TermProducts& products) { multiply_terms_here(products); }

}  // namespace crumb::runtime::exact

#else

namespace crumb::runtime::exact {
void multiply_terms_avx2(const TermProducts& products) { multiply_terms_ref(products); }
}  // namespace crumb::runtime::exact

#endif
