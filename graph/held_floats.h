// A tensor's elements as float32, without a copy where they are float32 already.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/tensor.h"

namespace crumb::graph {

class HeldFloats {
 public:
  /// Throws as Tensor::to_floats() does.
  explicit HeldFloats(const Tensor& tensor) {
    if (tensor.type() == ElementType::kFloat) {
      held_ = tensor.held();
      const std::span<const std::byte> bytes = held_->bytes();
      span_ = {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
    }
    if (tensor.type() != ElementType::kFloat ||
        reinterpret_cast<std::uintptr_t>(span_.data()) % alignof(float) != 0) {
      held_.reset();
      made_ = tensor.to_floats();
      span_ = made_;
    }
  }
  HeldFloats(const HeldFloats&) = delete;
  HeldFloats& operator=(const HeldFloats&) = delete;

  std::span<const float> span() const { return span_; }

 private:
  std::optional<HeldBytes> held_;
  std::vector<float> made_;
  std::span<const float> span_;
};

}  // namespace crumb::graph
