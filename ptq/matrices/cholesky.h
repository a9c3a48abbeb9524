// Factors symmetric positive definite matrices in double, and solves systems with them.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace crumb::ptq {

/// A = U^T U, U upper triangular. The same bits with any number of threads and on any processor.
class Cholesky {
 public:
  /// Factors A [size, size], row-major, without reading below its diagonal. Returns nothing where A is not
  /// positive definite in floating point.
  static std::optional<Cholesky> of(std::vector<double> matrix, std::size_t size, int threads);

  std::size_t size() const { return size_; }
  /// Returns row i of U; elements before i are undefined, not zero.
  const double* row(std::size_t i) const { return factor_.data() + i * size_; }

  /// Replaces `rows` [count, size], row-major, by X with X A = rows. Runs on one thread.
  void solve(double* rows, std::size_t count) const;

 private:
  Cholesky(std::vector<double> matrix, std::size_t size) : factor_(std::move(matrix)), size_(size) {}
  bool factor(int threads);
  bool factor_diagonal(std::size_t begin, std::size_t end);
  void subtract(std::size_t from, std::size_t terms, std::size_t row, std::size_t rows, std::size_t first,
                std::size_t last);
  void solve_right_of(std::size_t begin, std::size_t end, std::size_t first, std::size_t last);
  double* at(std::size_t i, std::size_t j) { return factor_.data() + i * size_ + j; }
  const double* at(std::size_t i, std::size_t j) const { return factor_.data() + i * size_ + j; }

  std::vector<double> factor_;
  std::size_t size_;
};

}  // namespace crumb::ptq
