// Weights of a smaller greatest magnitude that give nearly the same outputs: MagR (Zhang et al. 2024, arXiv:2406.00800).
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <span>

namespace crumb::ptq {

/// Of W, rows w, what is least of
///
///   |(V - W) X|^2 / (2 s) + alpha sum over blocks b of r_b max |v_b|,
///
/// s being the largest eigenvalue of H = X X^T, blocks `height` rows of `width` columns that share a scale, and r_b the sum of its rows'
/// r, the root of the mean square of a whole w: `steps` steps of proximal gradient descent from w, of rate 1 in these units. Neither the inputs' size nor the weights' matters
/// to alpha; the paper's, of weights as they are, is alpha r. The same whatever the threads and the processor.
/// Precondition: symmetric, finite, a diagonal of a mean above 0.
void reduce_magnitudes(std::span<float> rows, const Eigen::MatrixXd& moments, std::size_t height,
                       std::size_t width, double alpha, int steps, int threads);

}  // namespace crumb::ptq
