// How Ctrl-C reaches long work: a signal handler sets the flag, work looks at it between slices.
#pragma once

#include <atomic>

namespace crumb {

/// A person asked to stop. Not an Error: who catches those to add to the message, to turn them into a Failure or to go on without
/// what failed must not do so with this. Not a std::exception either, which is what other libraries' faults are caught as.
struct Interrupted {};

/// Set by the command line's SIGINT handler (lock-free, so a handler may). Nothing clears it but the one who
/// set it.
inline std::atomic<bool>& interrupt_requested() {
  static_assert(std::atomic<bool>::is_always_lock_free);
  static constinit std::atomic<bool> requested{false};
  return requested;
}

/// Throws Interrupted once a person asked to stop. Call it between slices of long work.
inline void check_interrupt() {
  if (interrupt_requested().load(std::memory_order_relaxed)) throw Interrupted();
}

}  // namespace crumb
