// The processor's instruction sets, whatever $CRUMB_ISA allows, for reports. What kernels may use:
// base/processor.h.
#pragma once

#include "base/processor.h"

namespace crumb {

/// Returns the most that the processor has.
Isa isa_there();

/// Whether the system alone keeps kernels from AMX, which the processor has and $CRUMB_ISA allows.
bool are_tiles_refused();

}  // namespace crumb
