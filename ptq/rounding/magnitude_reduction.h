// Weights of a smaller greatest magnitude with nearly the same outputs: MagR (Zhang et al. 2024,
// arXiv:2406.00800).
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <span>

namespace crumb::ptq {

/// Replaces W, with rows w, by an approximate minimum over V of
///
///   |(V - W) X|^2 / (2 s) + alpha sum over blocks b of r_b max |v_b|,
///
/// s being the largest eigenvalue of H = X X^T. Blocks are `height` rows of `width` columns that share a
/// scale, and r_b is the sum of its rows' r, the root mean square of a whole w. Takes `steps` steps of
/// proximal gradient descent from w, of rate 1 in these units. alpha depends on the size of neither inputs
/// nor weights; the paper's, of weights as they are, is alpha r. The same results with any number of threads,
/// on any processor. Precondition: symmetric, finite, with a diagonal whose mean is above 0.
void reduce_magnitudes(std::span<float> rows, const Eigen::MatrixXd& moments, std::size_t height,
                       std::size_t width, double alpha, int steps, int threads);

}  // namespace crumb::ptq
