// The memory of the process, as the system counts it.
#pragma once

#include <cstdint>
#include <optional>

namespace crumb {

/// Returns the bytes that the process may hold resident without allocating more: its present anonymous pages,
/// and all of the program and its libraries. The system loads more or less of these as it likes; counting all
/// of them gives two processes that have done the same the same number. 0 where the system does not tell.
uint64_t baseline_bytes();

/// Returns the largest resident set so far, in bytes (VmHWM); 0 where the system does not tell.
uint64_t peak_resident_bytes();

/// Returns the bytes that the process may still take: the least of what the system has left (MemAvailable,
/// free swap), what its control group has left (cgroup v2), and what RLIMIT_AS and RLIMIT_DATA leave. Nothing
/// where none is known.
std::optional<uint64_t> available_bytes();

}  // namespace crumb
