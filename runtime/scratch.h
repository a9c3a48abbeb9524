// A thread's memory between two calls.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace crumb::runtime {

/// For thread_local variables: floats that stay allocated, aligned to 64 bytes.
class Scratch {
 public:
  /// Memory for so many floats, not initialized. It replaces that of the last call.
  float* of(std::size_t count) {
    constexpr std::size_t kAlignment = 64;
    if (values_.size() < count + kAlignment) values_.resize(count + kAlignment);
    void* at = values_.data();
    std::size_t space = values_.size() * sizeof(float);
    return static_cast<float*>(std::align(kAlignment, count * sizeof(float), at, space));
  }

 private:
  std::vector<float> values_;
};

}  // namespace crumb::runtime
