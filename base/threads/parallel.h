// Threads for loops with independent pieces: which thread computes a piece never changes its result.
#pragma once

#include <cstddef>
#include <functional>

namespace crumb {

/// Returns the threads to use when a caller says 0: $CRUMB_THREADS, else as many as the machine has. The
/// variable is read once. Throws Error where it is no number from 1 to 4096.
int default_threads();

/// Calls body(begin, end) for pieces that cover [0, count), at most `grain` long, on up to `threads` threads
/// (0: default_threads(); the calling thread is one of them). Returns when all are done. Throws the first
/// exception again after the pieces that had started.
void parallel_for(size_t count, size_t grain, int threads, const std::function<void(size_t, size_t)>& body);

}  // namespace crumb
