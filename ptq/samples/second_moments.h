// Sums over samples of a layer's inputs: x x^T, and y x^T with another network's y for the same sample.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <span>

namespace crumb::ptq {

/// Samples as columns: element i of sample t is at [i * samples + t].
struct SampleColumns {
  std::span<const float> values;
  std::size_t samples = 0;
  std::size_t size() const { return samples == 0 ? 0 : values.size() / samples; }
};

/// Products of that many samples are summed in float32, and these sums as doubles: adding in parts that are
/// multiples of it, except the last, gives the sums of the whole.
inline constexpr std::size_t kSamplesAdded = 512;

/// Adds x x^T to `sum` [size, size]: products of float32 over kSamplesAdded samples at a time, whose sums are
/// added as doubles. The same on every processor, with any number of threads. If values are not finite,
/// neither is the sum.
void add_moments(Eigen::MatrixXd& sum, const SampleColumns& x, int threads);
/// Adds y x^T. Precondition: both have as many samples, of the same size.
void add_cross_moments(Eigen::MatrixXd& sum, const SampleColumns& y, const SampleColumns& x, int threads);

}  // namespace crumb::ptq
