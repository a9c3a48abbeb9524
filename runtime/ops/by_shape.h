// What a kernel works out of its input's shape, kept from run to run: most runs have the shape of the one
// before.
#pragma once

#include <memory>
#include <mutex>

#include "runtime/array.h"

namespace crumb::runtime {

/// Many threads may use one.
template <class T>
class ByShape {
 public:
  /// What make() returns for the shape. It is called where the last shape was another.
  template <class Make>
  std::shared_ptr<const T> of(const Ints& shape, const Make& make) {
    {
      const std::scoped_lock lock(mutex_);
      if (made_ && shape_ == shape) return made_;
    }
    auto made = std::make_shared<const T>(make());
    const std::scoped_lock lock(mutex_);
    shape_ = shape;
    return made_ = std::move(made);
  }

 private:
  std::mutex mutex_;
  Ints shape_;
  std::shared_ptr<const T> made_;
};

}  // namespace crumb::runtime
