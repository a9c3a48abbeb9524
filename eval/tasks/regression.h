// Numbers that should be other numbers.
//
//   rmse  the root of the mean squared error over all numbers of all samples
//   mae   the mean absolute error over them
//   r2    the coefficient of determination 1 - sum (y - f)^2 / sum (y - mean y)^2 of each number of an
//         output, and the mean over these: scikit-learn's r2_score, also where labels do not differ (1 where
//         every number is right, else 0). Outputs of more than 64 numbers a sample have none,
//         and samples of several shapes have one that is no number
#pragma once

#include <cstddef>
#include <vector>

#include "eval/tasks/scorer.h"

namespace crumb::eval {

class Regression final : public Scorer {
 public:
  static constexpr std::size_t kMostNumbers = 64;  ///< of a sample, for r2: it takes 48 bytes each

  /// `numbers`: of the first sample's output.
  explicit Regression(std::size_t numbers);
  /// Labels are values of the output's shape, axes of length 1 apart.
  void add(const SampleOutput& output, const SampleLabel& label) override;

 private:
  SumMetric &rmse_, &mae_;
  SumMetric* r2_ = nullptr;
  std::vector<float> first_;  ///< the first label, which r2's sums are taken from
};

}  // namespace crumb::eval
