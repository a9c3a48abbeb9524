// The loops of lines.h with AVX-512, which the compiler makes of them.
#include "runtime/integer/lines.h"

namespace crumb::runtime::integer {

#if defined(__x86_64__) && defined(__clang__)
#define CRUMB_LINES __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#elif defined(__x86_64__)
#define CRUMB_LINES __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")))
#else
#define CRUMB_LINES
#endif
#define CRUMB_NAMED(name) name##_avx512
#include "runtime/integer/lines_loops.inc"

}  // namespace crumb::runtime::integer
