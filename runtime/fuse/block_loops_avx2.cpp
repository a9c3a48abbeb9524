// The loops of block_loops.h with AVX2, which the compiler makes of them.
#include <cmath>

#include "runtime/fuse/block_loops.h"
#include "runtime/ops/hard_functions.h"

namespace crumb::runtime {

#if defined(__x86_64__)
#define CRUMB_BLOCK __attribute__((target("avx2")))
#else
#define CRUMB_BLOCK
#endif
#define CRUMB_NAMED(name) name##_avx2
#include "runtime/fuse/block_loops.inc"

}  // namespace crumb::runtime
