// Rounds a matrix column by column, each column compensating for the errors of those before it.
//
// A layer's inputs x have second moments H = sum x x^T. Codes Q instead of W change its outputs by tr((Q - W)
// H (Q - W)^T). With H = (I + U) D (I + U)^T, U strictly upper triangular and D diagonal, that is the sum
// over columns k of
//
//   D_k (q_k - t_k)^2,   t_k = w_k + sum over j < k of U_jk (w_j - q_j),
//
// so that q_k is the code nearest to t_k once those before it are chosen. These are GPTQ's codes (Frantar et
// al. 2022, arXiv:2210.17323), found without an inverse (Chee et al. 2023, arXiv:2307.13304, theorem 6).
//
// A greedy walk chooses each code as if no column followed: U_jk = H_jk / H_kk (Lybrand & Saab 2021,
// arXiv:2010.11758, as in ptq/rounding/gpfq.h).
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ptq/matrices/cholesky.h"
#include "ptq/rounding/accumulator_limits.h"
#include "quant/codes/fixed_scales.h"

namespace crumb::ptq {

/// U, for columns in some order.
class Feedback {
 public:
  /// Factors H. `damping` is added to the diagonal, as a share of its mean. Where the matrix is not positive
  /// definite in floating point, tries ten times as much, and so on up to the mean itself; then returns
  /// nothing. With `by_size`, columns with the largest diagonal come first, else columns keep their order.
  /// Precondition: symmetric, finite. Keeps the factors for solve() until forget_factors().
  static std::optional<Feedback> of(const Eigen::MatrixXd& moments, double damping, bool by_size,
                                    int threads = 1);

  /// Returns the greedy walk's U; columns for which greedy_divisors() is 0 compensate for nothing.
  static Feedback greedy(const Eigen::MatrixXd& moments, double damping, bool by_size);

  /// Returns a U of zeros for columns in their own order.
  static Feedback none(std::size_t columns);

  std::size_t size() const { return order_.size(); }
  double damping() const { return damping_; }  ///< the damping that was used
  const std::vector<std::size_t>& order() const { return order_; }
  /// U_jk for j < k, contiguous; columns are indexed as in order().
  const float* column(std::size_t k) const { return columns_.data() + k * size(); }

  /// Replaces `rows` [count, size], row-major, by X with X H = rows, H including its damping. Runs on one
  /// thread. Precondition: of() made this, and still has the factors.
  void solve(std::vector<double>& rows) const;
  void forget_factors() { factors_.reset(); }

 private:
  Feedback() = default;
  Feedback(const Eigen::MatrixXd& moments, bool by_size);

  std::vector<std::size_t> order_;
  std::vector<float> columns_;
  std::optional<Cholesky> factors_;  ///< of H with both axes in reverse order
  double damping_ = 0;
};

/// Returns H_kk with its damping, for each column; 0 where it is at most 1e-12 of their mean: float32 sums
/// that small do not show what a column has in common with others.
Eigen::VectorXd greedy_divisors(const Eigen::MatrixXd& moments, double damping);

/// Consecutive rows of a matrix.
struct RowRange {
  std::size_t first = 0, count = 0;
};

/// Returns the codes of `rows`: rows times columns of them, in the matrix' order of columns. `meant` is W of
/// these rows, row by row; `starts` replaces w_k as the first term of t_k, if it is not empty. The same
/// results with any number of threads, on any processor. `limits`: of these rows, if their sums must stay
/// within a register.
std::vector<std::uint8_t> codes_with_feedback(const FixedScales& scales, RowRange rows,
                                              std::span<const float> meant, const Feedback& feedback,
                                              int threads, AccumulatorLimits* limits = nullptr,
                                              std::span<const float> starts = {});

}  // namespace crumb::ptq
