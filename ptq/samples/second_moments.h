// Sums over samples of what a layer takes in: x x^T, and y x^T where another network gives y in x's place.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <span>

namespace crumb::ptq {

/// Samples side by side: element i of sample t lies at [i * samples + t].
struct SampleColumns {
  std::span<const float> values;
  std::size_t samples = 0;
  std::size_t size() const { return samples == 0 ? 0 : values.size() / samples; }
};

/// Samples whose products are added in float32, before they are as doubles: parts of samples that are a multiple of it, but for the
/// last, give the sums of the whole.
inline constexpr std::size_t kSamplesAdded = 512;

/// Adds x x^T to `sum` [size, size]: products of float32 for kSamplesAdded samples at a time, whose sums are added as
/// doubles. The same on every processor, whatever the threads. Precondition: values are finite, or the sum is not.
void add_moments(Eigen::MatrixXd& sum, const SampleColumns& x, int threads);
/// Adds y x^T. Precondition: as many samples, of the same size.
void add_cross_moments(Eigen::MatrixXd& sum, const SampleColumns& y, const SampleColumns& x, int threads);

}  // namespace crumb::ptq
