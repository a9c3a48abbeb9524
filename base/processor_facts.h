// What the processor has, whatever $CRUMB_ISA keeps kernels from: for reports. What kernels may use:
// base/processor.h.
#pragma once

#include "base/processor.h"

namespace crumb {

/// The most that the processor has.
Isa isa_there();

/// Whether it has AVX-512 VNNI, too.
bool has_vnni();

}  // namespace crumb
