// Computes a quantized network's outputs where registers are too narrow and wrap around.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "graph/graph.h"

namespace crumb::tasks {

/// Computes the outputs of a frozen graph. Its inner layers (all matrix products and convolutions of
/// quantized weights except the first and the last) compute exact integer sums, each reduced to `bits` bits
/// of two's complement: whatever the order, a register that wraps around ends there. Throws Error where a
/// layer has no integer codes or input.
class WrappingNetwork {
 public:
  explicit WrappingNetwork(const graph::Graph& frozen);
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs, int bits) const;

 private:
  struct Data;
  std::shared_ptr<const Data> data_;
};

}  // namespace crumb::tasks
