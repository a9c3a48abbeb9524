// What a quantized network answers where registers are too narrow and wrap around.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "graph/graph.h"

namespace crumb::tasks {

/// The first output of a frozen graph for one input, computed with exact integer sums in its inner layers (all matrix
/// products and convolutions of quantized weights but the first and the last), each brought into `bits` bits of two's
/// complement: whatever the order, a register that wraps around ends there. Throws Error where a layer has no integer
/// codes or input.
class WrappingNetwork {
 public:
  explicit WrappingNetwork(const graph::Graph& frozen);
  at::Tensor run(const at::Tensor& input, int bits) const;

 private:
  struct Data;
  std::shared_ptr<const Data> data_;
};

}  // namespace crumb::tasks
