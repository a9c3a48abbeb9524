// Random numbers of operators that have a `seed`.
#pragma once

#include <random>

#include "libtorch/execute/operator.h"

namespace crumb::libtorch {

/// Draws on the CPU, so that a seed fixes the numbers on every device. The uniform numbers are those of the
/// reference implementation (NumPy's RandomState): MT19937, two outputs a and b to a number,
/// ((a >> 5) * 2^26 + (b >> 6)) / 2^53.
class RandomSource {
 public:
  explicit RandomSource(std::uint32_t seed) : engine_(seed) {}

  at::Tensor uniform(at::IntArrayRef shape, at::Device device);  ///< double, [0, 1)
  at::Tensor normal(at::IntArrayRef shape, at::Device device);   ///< double; Box and Muller, 1958
  /// So many draws a row of [rows, outcomes], whose numbers are weights: indices of outcomes.
  at::Tensor choices(const at::Tensor& weights, std::int64_t draws);

 private:
  std::mt19937 engine_;
};

/// Seeded by the attribute; without one by a draw from LibTorch's own generator, which torch::manual_seed()
/// sets.
RandomSource random_source(const Call& call);

}  // namespace crumb::libtorch
