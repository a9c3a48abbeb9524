// Random numbers of operators that have a `seed`.
#pragma once

#include <ATen/core/Generator.h>

#include "models/torch/execute/operator.h"

namespace crumb::torch_ops {

/// Draws on the CPU, so that a seed fixes the numbers on every device. Without a seed: LibTorch's own generator,
/// which torch::manual_seed() sets.
class RandomSource {
 public:
  explicit RandomSource(std::optional<at::Generator> generator) : generator_(std::move(generator)) {}

  at::Tensor uniform(at::IntArrayRef shape, at::Device device) const;  ///< double, [0, 1)
  at::Tensor normal(at::IntArrayRef shape, at::Device device) const;   ///< double
  /// So many draws a row of [rows, outcomes], whose numbers are weights.
  at::Tensor choices(const at::Tensor& weights, std::int64_t draws) const;

 private:
  std::optional<at::Generator> generator_;
};

RandomSource random_source(const Call& call);

}  // namespace crumb::torch_ops
