// The loops of larger_floats.h for any processor.
#include "runtime/ops/larger_floats.h"

namespace crumb::runtime {

#define CRUMB_LARGER
#define CRUMB_NAMED(name) name##_portable
#include "runtime/ops/larger_floats.inc"

}  // namespace crumb::runtime
