// What the process holds in memory, as the system counts it.
#pragma once

#include <cstdint>

namespace crumb {

/// The resident set now, in bytes (VmRSS); 0 where the system does not say.
uint64_t resident_bytes();

/// The largest resident set so far, in bytes (VmHWM); 0 where the system does not say.
uint64_t peak_resident_bytes();

}  // namespace crumb
