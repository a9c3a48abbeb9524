// How a method goes through the columns of a layer's matrix: the difference between GPTQ, GPFQ and Qronos.
#pragma once

#include <Eigen/Core>
#include <span>
#include <vector>

#include "ptq/rounding/feedback.h"

namespace crumb::ptq {

/// What is known about a layer, or a group of a convolution, before its codes are chosen. Weight matrices are
/// row-major.
struct LayerTarget {
  std::span<const float> weights;  ///< W
  std::span<const float> whole;    ///< V: W plus what the layer's branches add (branch_weights.h)
  /// (W (H + d) + V (G - H)) (H + d)^-1, or W without G: with branches on x it gives the target outputs.
  std::span<const float> nearest;
  const Eigen::MatrixXd& moments;  ///< H = sum x x^T
  const Eigen::MatrixXd* cross;    ///< G = sum y x^T, y being the float network's x; null: y is x
  Feedback& feedback;              ///< of H + d; a walk may move it away
  double damping;                  ///< as requested: a share of H's mean diagonal
  bool by_size;                    ///< columns with the largest diagonal come first
  int threads;
};

/// Column k, in the order of `feedback`, becomes the code nearest to
///   starts_k + sum over j < k of U_jk (meant_j - q_j).
struct CodeWalk {
  Feedback feedback;
  std::span<const float> meant;  ///< the target's `weights` or `nearest`
  std::vector<float> starts;     ///< empty: meant
};

/// Returns a layer's walk; each stage has one.
using CodeWalkOf = CodeWalk (*)(const LayerTarget&);

}  // namespace crumb::ptq
