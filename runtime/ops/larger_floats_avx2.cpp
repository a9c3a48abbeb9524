// The loops of larger_floats.h with AVX2, which the compiler makes of them.
#include "runtime/ops/larger_floats.h"

namespace crumb::runtime {

#if defined(__x86_64__)
#define CRUMB_LARGER __attribute__((target("avx2")))
#else
#define CRUMB_LARGER
#endif
#define CRUMB_NAMED(name) name##_avx2
#include "runtime/ops/larger_floats.inc"

}  // namespace crumb::runtime
