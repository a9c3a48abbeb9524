// The nearest matrix of a low rank.
#pragma once

#include <Eigen/Core>

namespace crumb::ptq {

struct LowRankFactors {
  Eigen::MatrixXd up;    ///< [rows, rank]
  Eigen::MatrixXd down;  ///< [rank, columns]; row i is as long as column i of `up`
};

/// up * down, the nearest to the matrix by squared error, or nearly so: where more than a few times `rank` directions are there,
/// by subspace iteration (Halko, Martinsson and Tropp 2011, arXiv:0909.4061) from a fixed start. What it leaves is at most 1 %
/// above the least that any of its rank leaves, of matrices as networks have them. Precondition: rank <= both sizes.
LowRankFactors nearest_of_rank(const Eigen::MatrixXd& matrix, Eigen::Index rank);

}  // namespace crumb::ptq
