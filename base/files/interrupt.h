// How Ctrl-C reaches long work: a signal handler sets the flag, work checks it between slices.
#pragma once

#include <atomic>

namespace crumb {

/// A person asked to stop. Not an Error: code that catches Errors to add to the message, to turn them into a
/// Failure or to go on without what failed must not catch this. Not a std::exception either, as which other
/// libraries' errors are caught.
struct Interrupted {};

/// The flag that the command line's SIGINT handler sets (lock-free, so a handler may). Only whoever set it
/// clears it.
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
