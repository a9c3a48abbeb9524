// The loops of lines.h with AVX2, which the compiler makes of them.
#include "runtime/integer/lines.h"

namespace crumb::runtime::integer {

#if defined(__x86_64__)
#define CRUMB_LINES __attribute__((target("avx2")))
#else
#define CRUMB_LINES
#endif
#define CRUMB_NAMED(name) name##_avx2
#include "runtime/integer/lines_loops.inc"

}  // namespace crumb::runtime::integer
