// The loops of score_weights.h with AVX2, which the compiler makes of them.
#include "runtime/attention/attention.h"
#include "runtime/attention/score_weights.h"
#include "runtime/exact/functions.h"
#include "runtime/exact/products.h"

namespace crumb::runtime {

#if defined(__x86_64__)
#define CRUMB_SCORES __attribute__((target("avx2")))
#else
#define CRUMB_SCORES
#endif
#define CRUMB_NAMED(name) name##_avx2
#include "runtime/attention/score_weights.inc"

}  // namespace crumb::runtime
