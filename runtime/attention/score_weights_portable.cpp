// The loops of score_weights.h for any processor.
#include "runtime/attention/attention.h"
#include "runtime/attention/score_weights.h"
#include "runtime/exact/functions.h"
#include "runtime/exact/products.h"

namespace crumb::runtime {

#define CRUMB_SCORES
#define CRUMB_NAMED(name) name##_portable
#include "runtime/attention/score_weights.inc"

}  // namespace crumb::runtime
