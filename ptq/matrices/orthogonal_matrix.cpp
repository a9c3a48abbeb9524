#include "ptq/matrices/orthogonal_matrix.h"

#include <Eigen/QR>
#include <cmath>
#include <random>
#include <vector>

namespace crumb::ptq {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;

bool is_prime(std::size_t n) {
  if (n < 2) return false;
  for (std::size_t d = 2; d * d <= n; ++d)
    if (n % d == 0) return false;
  return true;
}

/// Returns Jacobsthal's matrix of a prime: whether i - j is a square modulo it.
MatrixXd squares_of_differences(std::size_t prime) {
  std::vector<double> character(prime, -1.0);
  character[0] = 0;
  for (std::size_t i = 1; i < prime; ++i) character[i * i % prime] = 1;
  const auto size = static_cast<Index>(prime);
  return MatrixXd::NullaryExpr(size, size, [&](Index i, Index j) {
    return character[static_cast<std::size_t>((i - j + size) % size)];
  });
}

/// Returns a matrix of one of Paley's two constructions: of size q + 1, and of 2 (q + 1).
std::optional<MatrixXd> paley(std::size_t size) {
  if (size >= 4 && size % 4 == 0 && is_prime(size - 1)) {
    const auto n = static_cast<Index>(size);
    MatrixXd made = MatrixXd::Ones(n, n);  // I + [[0, 1], [-1, Q]], Q skew-symmetric
    made.bottomRightCorner(n - 1, n - 1) = squares_of_differences(size - 1);
    made.col(0).tail(n - 1).setConstant(-1);
    made.diagonal().setConstant(1);
    return made;
  }
  if (size % 4 != 0 || size < 12 || (size / 2 - 1) % 4 != 1 || !is_prime(size / 2 - 1)) return std::nullopt;
  const auto half = static_cast<Index>(size / 2);
  MatrixXd core = MatrixXd::Ones(half, half);  // symmetric, zeros on the diagonal, core core^T = (half - 1) I
  core.bottomRightCorner(half - 1, half - 1) = squares_of_differences(size / 2 - 1);
  core.diagonal().setZero();
  MatrixXd made(2 * half, 2 * half);
  for (Index i = 0; i < half; ++i)
    for (Index j = 0; j < half; ++j) {
      const double c = core(i, j), one = i == j ? 1 : 0;
      made.block<2, 2>(2 * i, 2 * j) << c + one, c - one, c - one, -c - one;
    }
  return made;
}

MatrixXd kronecker(const MatrixXd& a, const MatrixXd& b) {
  MatrixXd made(a.rows() * b.rows(), a.cols() * b.cols());
  for (Index i = 0; i < a.rows(); ++i)
    for (Index j = 0; j < a.cols(); ++j)
      made.block(i * b.rows(), j * b.cols(), b.rows(), b.cols()) = a(i, j) * b;
  return made;
}

}  // namespace

std::optional<MatrixXd> hadamard(std::size_t size) {
  if (size == 1) return MatrixXd::Ones(1, 1);
  if (size == 0 || size % 2 != 0) return std::nullopt;
  if (size % 4 != 0 && size != 2) return std::nullopt;
  const MatrixXd two{{1, 1}, {1, -1}};
  if (auto rest = hadamard(size / 2)) return kronecker(two, *rest);
  return paley(size);
}

MatrixXd drawn_rotation(std::size_t size, std::uint64_t seed) {
  std::mt19937_64 random(seed ^ (size * 0x9E3779B97F4A7C15ULL));
  const auto n = static_cast<Index>(size);
  if (auto found = hadamard(size)) {
    MatrixXd& made = *found;
    const double scale = 1 / std::sqrt(static_cast<double>(size));
    for (Index i = 0; i < n; ++i) made.row(i) *= (random() >> 63) != 0 ? scale : -scale;
    return made;
  }
  const MatrixXd drawn = MatrixXd::NullaryExpr(n, n, [&] {
    return static_cast<double>(random() >> 11) * 0x1p-52 - 1;  // between -1 and 1
  });
  return Eigen::HouseholderQR<MatrixXd>(drawn).householderQ() * MatrixXd::Identity(n, n);
}

}  // namespace crumb::ptq
