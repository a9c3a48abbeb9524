// The loops of code_values.h with AVX2, which the compiler makes of them.
#include <algorithm>
#include <bit>

#include "runtime/integer/code_values.h"

namespace crumb::runtime::integer {

#if defined(__x86_64__)
#define CRUMB_CODES __attribute__((target("avx2")))
#else
#define CRUMB_CODES
#endif
#define CRUMB_NAMED(name) name##_avx2
#include "runtime/integer/code_values_loops.inc"

}  // namespace crumb::runtime::integer
