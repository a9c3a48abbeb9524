// How a method goes through the columns of a layer's matrix: what GPTQ, GPFQ and Qronos differ in.
#pragma once

#include <Eigen/Core>
#include <span>
#include <vector>

#include "ptq/rounding/feedback.h"

namespace crumb::ptq {

/// What is known of a layer, or of a convolution's group, before its codes are chosen. Matrices of weights lie row by row.
struct LayerTarget {
  std::span<const float> weights;  ///< W
  std::span<const float> whole;    ///< V: W and what nodes beside the layer add to it (branch_weights.h)
  std::span<const float>
      nearest;  ///< (W (H + d) + V (G - H)) (H + d)^-1, whose outputs are those that are to
                ///< stay: what lies beside the codes takes in x, too; W without G
  const Eigen::MatrixXd& moments;  ///< H = sum x x^T
  const Eigen::MatrixXd* cross;    ///< G = sum y x^T, y being the float network's x; null: y is x
  Feedback& feedback;              ///< of H + d; a walk may take it away
  double damping;                  ///< that was asked for, as a share of H's mean diagonal
  bool by_size;                    ///< the order of columns
  int threads;
};

/// Column k, in the order of `feedback`, becomes the code nearest to
///   starts_k + sum over j < k of U_jk (meant_j - q_j).
struct CodeWalk {
  Feedback feedback;
  std::span<const float> meant;  ///< the target's weights, or the nearest
  std::vector<float> starts;     ///< empty: meant
};

/// By the stage.
using CodeWalkOf = CodeWalk (*)(const LayerTarget&);

}  // namespace crumb::ptq
