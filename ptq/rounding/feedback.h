// Rounding a matrix column by column, each column taking in what those before it lost.
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
// A greedy walk chooses each code as if no column came behind it: U_jk = H_jk / H_kk (Lybrand & Saab 2021,
// arXiv:2010.11758, as ptq/rounding/gpfq.h has it).
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

/// U, with columns in an order.
class Feedback {
 public:
  /// Of the factors of H. `damping`: what is added to the diagonal, as a share of its mean. Where the matrix
  /// is not positive definite in floating point, ten times as much, and so on up to the mean itself; then
  /// nothing comes back. The columns with the largest diagonal come first where `by_size`, else as they lie.
  /// Precondition: symmetric, finite. The factors are kept for solve() until forget_factors().
  static std::optional<Feedback> of(const Eigen::MatrixXd& moments, double damping, bool by_size,
                                    int threads = 1);

  /// Of the greedy walk, whose columns take in nothing where greedy_divisors() has 0.
  static Feedback greedy(const Eigen::MatrixXd& moments, double damping, bool by_size);

  /// Columns that take in nothing, as they lie.
  static Feedback none(std::size_t columns);

  std::size_t size() const { return order_.size(); }
  double damping() const { return damping_; }  ///< that it took
  const std::vector<std::size_t>& order() const { return order_; }
  /// U_jk for j < k, one after the other; columns count as in order().
  const float* column(std::size_t k) const { return columns_.data() + k * size(); }

  /// `rows` [count, size], row by row, becomes X with X H = rows, H with its damping. On one thread.
  /// Precondition: of of(), and nothing forgotten.
  void solve(std::vector<double>& rows) const;
  void forget_factors() { factors_.reset(); }

 private:
  Feedback() = default;
  Feedback(const Eigen::MatrixXd& moments, bool by_size);

  std::vector<std::size_t> order_;
  std::vector<float> columns_;
  std::optional<Cholesky> factors_;  ///< of H with both axes from the order's back to its front
  double damping_ = 0;
};

/// H_kk with its damping, for each column; 0 where it is 1e-12 of their mean or less: float32 sums of so
/// little do not say what it has in common with others.
Eigen::VectorXd greedy_divisors(const Eigen::MatrixXd& moments, double damping);

/// Consecutive rows of a matrix.
struct RowRange {
  std::size_t first = 0, count = 0;
};

/// The codes of `rows`: as many as rows times columns, in the matrix' order of columns. `meant` is W, these
/// rows, row by row; `starts` what stands before the sum in t_k, where that is not w_k. The same whatever the
/// threads and the processor. `limits`: of these rows, where their sums are to stay within a register.
std::vector<std::uint8_t> codes_with_feedback(const FixedScales& scales, RowRange rows,
                                              std::span<const float> meant, const Feedback& feedback,
                                              int threads, AccumulatorLimits* limits = nullptr,
                                              std::span<const float> starts = {});

}  // namespace crumb::ptq
