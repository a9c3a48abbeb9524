// The processor's instruction sets, whatever $CRUMB_ISA allows, for reports. What kernels may use:
// base/processor.h.
#pragma once

#include "base/processor.h"

namespace crumb {

/// Returns the most that the processor has.
Isa isa_there();

}  // namespace crumb
