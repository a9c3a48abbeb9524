// How Ctrl-C reaches long work: a signal handler sets the flag, work looks at it between slices.
#pragma once

#include <atomic>

#include "base/error.h"

namespace crumb {

/// Set by the command line's SIGINT handler (lock-free, so a handler may). Nothing clears it but the one who
/// set it.
inline std::atomic<bool>& interrupt_requested() {
  static_assert(std::atomic<bool>::is_always_lock_free);
  static constinit std::atomic<bool> requested{false};
  return requested;
}

/// Throws Error(kInterrupted) once a person asked to stop. Call it between slices of long work.
inline void check_interrupt() {
  if (interrupt_requested().load(std::memory_order_relaxed))
    throw Error("interrupted", ErrorKind::kInterrupted);
}

}  // namespace crumb
