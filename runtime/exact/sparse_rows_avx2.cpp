// The loops of sparse_rows.h with AVX2 and FMA, which the compiler makes of them.
#include <cmath>

#include "runtime/exact/sparse_rows.h"

namespace crumb::runtime::exact {

#if defined(__x86_64__)
#define CRUMB_SPARSE __attribute__((target("avx2,fma")))
#else
#define CRUMB_SPARSE
#endif
#define CRUMB_FMA(a, b, c) __builtin_fmaf(a, b, c)
#define CRUMB_NAMED(name) name##_avx2
#include "runtime/exact/sparse_rows_loops.inc"

}  // namespace crumb::runtime::exact
