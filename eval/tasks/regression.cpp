#include "eval/tasks/regression.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "eval/tasks/same_shape.h"

namespace crumb::eval {
namespace {

constexpr std::size_t kOfEach = 3;  // sums of y, y^2 and e^2 of each number

double root_mean(std::span<const double> sums) { return std::sqrt(sums[0] / sums[1]); }

/// The first sum counts samples.
double determination(std::span<const double> sums) {
  double all = 0;
  std::size_t numbers = 0;
  for (std::size_t i = 1; i + kOfEach <= sums.size(); i += kOfEach, ++numbers) {
    const double spread = sums[i + 1] - sums[i] * sums[i] / sums[0], error = sums[i + 2];
    all += spread > 0 ? 1 - error / spread : error == 0 ? 1 : 0;
  }
  return !(sums[0] >= 2) ? std::numeric_limits<double>::quiet_NaN() : all / static_cast<double>(numbers);
}

}  // namespace

Regression::Regression(std::size_t numbers)
    : rmse_(add_metric(std::make_unique<SumMetric>(
          MetricName{.name = "rmse", .more_is_better = false, .digits = 6}, root_mean, 2))),
      mae_(add_metric(std::make_unique<SumMetric>(
          MetricName{.name = "mae", .more_is_better = false, .digits = 6}, mean_of_sums, 2))) {
  if (numbers <= kMostNumbers)
    r2_ = &add_metric(std::make_unique<SumMetric>(MetricName{.name = "r2", .digits = 6}, determination,
                                                  1 + kOfEach * numbers));
}

void Regression::add(const SampleOutput& output, const SampleLabel& label) {
  check_same_shape(output, label, "regress");
  if (first_.empty()) first_.assign(label.values.begin(), label.values.end());
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const bool has_first_shape = label.values.size() == first_.size();
  double squares = 0, sizes = 0;
  std::vector<Term> terms{{0, has_first_shape ? 1 : kNone}};
  for (std::size_t i = 0; i < label.values.size(); ++i) {
    const double error = static_cast<double>(label.values[i]) - output.values[i];
    squares += error * error;
    sizes += std::abs(error);
    if (!r2_ || !has_first_shape) continue;
    const double y = static_cast<double>(label.values[i]) - first_[i];
    const auto sum = static_cast<std::uint32_t>(1 + kOfEach * i);
    terms.insert(terms.end(), {{sum, y}, {sum + 1, y * y}, {sum + 2, error * error}});
  }
  const auto count = static_cast<double>(label.values.size());
  rmse_.add(std::vector<Term>{{0, squares}, {1, count}});
  mae_.add(std::vector<Term>{{0, sizes}, {1, count}});
  if (r2_) r2_->add(terms);
}

}  // namespace crumb::eval
