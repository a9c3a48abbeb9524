#pragma once

#include <chrono>

namespace crumb {

/// Returns the seconds of a clock that never goes back.
inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace crumb
