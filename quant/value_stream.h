// Streams a tensor's values, when the tensor may be larger than memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace crumb {

/// A tensor's values as float32 in row-major order, front to back, any number of times.
class ValueStream {
 public:
  virtual ~ValueStream() = default;

  /// Returns the next `count` values, or those that are left; none at the end. Valid until the next call.
  virtual std::span<const float> next(uint64_t count) = 0;

  /// Goes back to the front.
  virtual void rewind() = 0;
};

/// Streams values that are in memory.
class SpanStream final : public ValueStream {
 public:
  explicit SpanStream(std::span<const float> values) : values_(values) {}

  std::span<const float> next(uint64_t count) override {
    const std::span<const float> piece =
        values_.subspan(position_, std::min<uint64_t>(count, values_.size() - position_));
    position_ += piece.size();
    return piece;
  }
  void rewind() override { position_ = 0; }

 private:
  std::span<const float> values_;
  uint64_t position_ = 0;
};

}  // namespace crumb
