// What the process holds in memory, as the system counts it.
#pragma once

#include <cstdint>
#include <optional>

namespace crumb {

/// What the process may hold resident without allocating more, in bytes: its anonymous pages now, and the whole of the
/// program and its libraries, of which the system brings in more or less as it likes, so that two processes that have
/// done the same say the same. 0 where the system does not say.
uint64_t baseline_bytes();

/// The largest resident set so far, in bytes (VmHWM); 0 where the system does not say.
uint64_t peak_resident_bytes();

/// Bytes that the process may still take: the least of what the system has left (MemAvailable, free swap), what
/// its control group has left (cgroup v2), and what RLIMIT_AS and RLIMIT_DATA leave. Nothing where none is known.
std::optional<uint64_t> available_bytes();

}  // namespace crumb
