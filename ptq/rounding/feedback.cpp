#include "ptq/rounding/feedback.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/threads/parallel.h"
#include "runtime/exact/products.h"

namespace crumb::ptq {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;

constexpr std::size_t kRows = 32, kColumns = 64;  // of a piece, which is finished before the next
constexpr double kBringsNothing = 1e-12;          // of the mean

/// Rows of a matrix, with columns in some order, while their codes are chosen.
class Piece {
 public:
  /// begin: the first row's index in `limits`.
  Piece(const FixedScales& scales, const Feedback& feedback, std::size_t first_row, std::size_t rows,
        const float* meant, const float* starts, AccumulatorLimits* limits, std::size_t begin)
      : scales_(scales),
        feedback_(feedback),
        limits_(limits),
        first_row_(first_row),
        begin_(begin),
        rows_(rows),
        columns_(feedback.size()),
        meant_(in_order(meant)),
        starts_(in_order(starts)),
        lost_(rows * columns_),
        target_(kRows * kColumns) {}

  /// codes: of these rows, in the matrix' own order of columns.
  void run(std::uint8_t* codes) {
    for (std::size_t begin = 0; begin < columns_; begin += kColumns) {
      const std::size_t count = std::min(kColumns, columns_ - begin);
      runtime::exact::multiply({.rows = rows_,
                                .columns = count,
                                .terms = begin,
                                .x = lost_.data(),
                                .x_stride = columns_,
                                .w = feedback_.column(begin),
                                .w_stride = columns_,
                                .y = target_.data(),
                                .y_row = kColumns},
                               1);
      for (std::size_t i = 0; i < count; ++i) choose(begin, i, codes);
    }
  }

 private:
  std::vector<float> in_order(const float* rows) const {
    std::vector<float> made(rows_ * columns_);
    for (std::size_t row = 0; row < rows_; ++row)
      for (std::size_t k = 0; k < columns_; ++k)
        made[row * columns_ + k] = rows[row * columns_ + feedback_.order()[k]];
    return made;
  }

  /// Chooses the codes of column begin + i of all rows. Rows do not depend on each other: what their columns
  /// since `begin` lost is summed for all of them at once.
  void choose(std::size_t begin, std::size_t i, std::uint8_t* codes) {
    const std::size_t k = begin + i, column = feedback_.order()[k];
    const float* factors = feedback_.column(k) + begin;
    std::array<float, kRows> targets{};
    for (std::size_t row = 0; row < rows_; ++row) targets[row] = target_[row * kColumns + i];
    for (std::size_t j = 0; j < i; ++j)
      for (std::size_t row = 0; row < kRows; ++row) targets[row] += factors[j] * lost_here_[j][row];
    for (std::size_t row = 0; row < rows_; ++row) {
      float target = targets[row] + starts_[row * columns_ + k];
      if (limits_) target = limits_->nearer_to_zero(begin_ + row, column, target);
      std::uint8_t code = scales_.code(first_row_ + row, column, target);
      if (limits_) code = limits_->admit(begin_ + row, column, code);
      codes[row * columns_ + column] = code;
      lost_[row * columns_ + k] = lost_here_[i][row] =
          meant_[row * columns_ + k] - scales_.value(first_row_ + row, column, code);
    }
  }

  const FixedScales& scales_;
  const Feedback& feedback_;
  AccumulatorLimits* limits_;
  std::size_t first_row_, begin_, rows_, columns_;
  std::vector<float> meant_, starts_, lost_, target_;
  std::array<std::array<float, kRows>, kColumns> lost_here_{};  ///< of the columns in work: [column][row]
};

}  // namespace

Feedback::Feedback(const MatrixXd& moments, bool by_size) : order_(static_cast<std::size_t>(moments.rows())) {
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  const auto diagonal = [&](std::size_t i) { return moments.diagonal()[static_cast<Index>(i)]; };
  if (by_size)
    std::ranges::stable_sort(order_, [&](std::size_t a, std::size_t b) { return diagonal(a) > diagonal(b); });
  columns_.assign(order_.size() * order_.size(), 0.0F);
}

Feedback Feedback::greedy(const MatrixXd& moments, double damping, bool by_size) {
  Feedback made(moments, by_size);
  made.damping_ = damping;
  const Eigen::VectorXd divisors = greedy_divisors(moments, damping);
  const auto column_of = [&](std::size_t k) { return static_cast<Index>(made.order_[k]); };
  for (std::size_t k = 0; k < made.size(); ++k) {
    const double own = divisors[column_of(k)];
    float* column = made.columns_.data() + k * made.size();
    if (own > 0)
      for (std::size_t j = 0; j < k; ++j)
        column[j] = static_cast<float>(moments(column_of(j), column_of(k)) / own);
  }
  return made;
}

Feedback Feedback::none(std::size_t columns) {
  Feedback made;
  made.order_.resize(columns);
  std::iota(made.order_.begin(), made.order_.end(), std::size_t{0});
  made.columns_.assign(columns * columns, 0.0F);
  return made;
}

Eigen::VectorXd greedy_divisors(const MatrixXd& moments, double damping) {
  const double mean = moments.diagonal().mean();
  return moments.diagonal().unaryExpr([&](double own) {
    const double damped = own + damping * mean;
    return damped > kBringsNothing * mean ? damped : 0;
  });
}

std::optional<Feedback> Feedback::of(const MatrixXd& moments, double damping, bool by_size, int threads) {
  Feedback made(moments, by_size);
  const std::size_t size = made.size();
  const double mean = moments.diagonal().mean();
  if (!(mean > 0)) return std::nullopt;
  // With both axes reversed the upper factor is a lower one: H = R R^T, R_ij = U_(n-1-j)(n-1-i).
  for (made.damping_ = damping; made.damping_ <= std::max(1.0, damping) && std::isfinite(made.damping_);
       made.damping_ *= 10) {
    std::vector<double> damped(size * size);
    for (std::size_t i = 0; i < size; ++i) {
      const double* const from = moments.data() + made.order_[size - 1 - i] * size;  // symmetric
      for (std::size_t j = i; j < size; ++j) damped[i * size + j] = from[made.order_[size - 1 - j]];
      damped[i * size + i] += made.damping_ * mean;
    }
    made.factors_ = Cholesky::of(std::move(damped), size, threads);
    if (!made.factors_) continue;
    for (std::size_t k = 0; k < size; ++k) {
      const double* const row = made.factors_->row(size - 1 - k);
      const double own = row[size - 1 - k];
      float* column = made.columns_.data() + k * size;
      for (std::size_t j = 0; j < k; ++j) column[j] = static_cast<float>(row[size - 1 - j] / own);
    }
    return made;
  }
  return std::nullopt;
}

void Feedback::solve(std::vector<double>& rows) const {
  const std::size_t columns = size(), count = rows.size() / columns;
  std::vector<double> ordered(rows.size());
  for (std::size_t row = 0; row < count; ++row)
    for (std::size_t k = 0; k < columns; ++k)
      ordered[row * columns + k] = rows[row * columns + order_[columns - 1 - k]];
  factors_->solve(ordered.data(), count);
  for (std::size_t row = 0; row < count; ++row)
    for (std::size_t k = 0; k < columns; ++k)
      rows[row * columns + order_[columns - 1 - k]] = ordered[row * columns + k];
}

std::vector<std::uint8_t> codes_with_feedback(const FixedScales& scales, RowRange rows,
                                              std::span<const float> meant, const Feedback& feedback,
                                              int threads, AccumulatorLimits* limits,
                                              std::span<const float> starts) {
  const std::size_t columns = feedback.size();
  if (starts.empty()) starts = meant;
  std::vector<std::uint8_t> codes(rows.count * columns);
  parallel_for(rows.count, kRows, threads, [&](std::size_t begin, std::size_t end) {
    Piece(scales, feedback, rows.first + begin, end - begin, meant.data() + begin * columns,
          starts.data() + begin * columns, limits, begin)
        .run(codes.data() + begin * columns);
  });
  return codes;
}

}  // namespace crumb::ptq
