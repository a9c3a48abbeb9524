#include "ptq/matrices/nearest_of_rank.h"

#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <random>

namespace crumb::ptq {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;

constexpr int kRounds = 8;

/// Returns orthonormal columns with the same span. Precondition: no more columns than rows.
MatrixXd basis_of(const MatrixXd& columns) {
  const Eigen::HouseholderQR<MatrixXd> qr(columns);
  return qr.householderQ() * MatrixXd::Identity(columns.rows(), columns.cols());
}

/// Returns random numbers from -1 to 1, the same on every machine.
MatrixXd drawn(Index rows, Index columns) {
  std::mt19937_64 random(1);
  MatrixXd made(rows, columns);
  for (double& x : made.reshaped()) x = std::ldexp(static_cast<double>(random()), -63) - 1;
  return made;
}

/// Returns the directions in the column space with the most of the matrix.
MatrixXd leading_directions(const MatrixXd& matrix, Index count) {
  MatrixXd basis = basis_of(matrix * drawn(matrix.cols(), count));
  for (int round = 0; round < kRounds; ++round)
    basis = basis_of(matrix * basis_of(matrix.transpose() * basis));
  return basis;
}

}  // namespace

LowRankFactors nearest_of_rank(const MatrixXd& matrix, Index rank) {
  const Index all = std::min(matrix.rows(), matrix.cols()), tried = 3 * rank + 16;
  const bool whole = tried >= all;
  if (whole && matrix.rows() > matrix.cols()) {
    LowRankFactors transposed = nearest_of_rank(matrix.transpose(), rank);
    return {transposed.down.transpose(), transposed.up.transpose()};
  }
  const MatrixXd basis = whole ? MatrixXd::Identity(all, all) : leading_directions(matrix, tried);
  const MatrixXd inner = basis.transpose() * matrix;
  const Eigen::SelfAdjointEigenSolver<MatrixXd> solver(inner * inner.transpose());  // ascending
  const MatrixXd first = solver.eigenvectors().rightCols(rank);
  LowRankFactors made{basis * first, first.transpose() * inner};
  for (Index i = 0; i < rank; ++i) {
    const double root = std::sqrt(made.down.row(i).norm());
    made.up.col(i) *= root;
    if (root > 0) made.down.row(i) /= root;
  }
  return made;
}

}  // namespace crumb::ptq
