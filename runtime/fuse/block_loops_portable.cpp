// The loops of block_loops.h for any processor.
#include <cmath>

#include "runtime/fuse/block_loops.h"
#include "runtime/ops/hard_functions.h"

namespace crumb::runtime {

#define CRUMB_BLOCK
#define CRUMB_NAMED(name) name##_portable
#include "runtime/fuse/block_loops.inc"

}  // namespace crumb::runtime
