#include "eval/output_comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "eval/logit_row.h"
#include "eval/quantile.h"
#include "quant/agreement.h"

namespace crumb::eval {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

std::uint64_t count_not_finite(std::span<const float> values) {
  return static_cast<std::uint64_t>(
      std::ranges::count_if(values, [](float value) { return !std::isfinite(value); }));
}

double sum_of(std::span<const float> row) {
  double sum = 0;
  for (const float value : row) sum += value;
  return sum;
}

bool is_distribution(std::span<const float> row) {
  constexpr double kTolerance = 1e-3;
  return std::ranges::all_of(row, [](float value) { return value >= 0; }) &&
         std::abs(sum_of(row) - 1) <= kTolerance;
}

double divergence_of_distributions(std::span<const float> from, std::span<const float> to) {
  const double from_sum = sum_of(from), to_sum = sum_of(to);
  double sum = 0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const double p = from[i] / from_sum;
    const double q = std::max(to[i] / to_sum, static_cast<double>(std::numeric_limits<float>::min()));
    if (p > 0) sum += p * (std::log(p) - std::log(q));
  }
  return std::max(sum, 0.0);  // what rounding makes negative
}

std::size_t largest_of(std::span<const float> row) {
  return static_cast<std::size_t>(std::ranges::max_element(row) - row.begin());
}

/// The rows of a sample, one after the other.
class SampleRows {
 public:
  SampleRows(const SampleOutput& output, RowAxis axis) : values_(output.values) {
    const auto width = output.shape.empty()     ? 0
                       : axis == RowAxis::kLast ? output.shape.back()
                                                : output.shape.front();
    width_ = static_cast<std::size_t>(width);
    count_ = width_ == 0 ? 0 : values_.size() / width_;
    stride_ = axis == RowAxis::kFirst ? count_ : 1;
    gathered_.resize(stride_ == 1 ? 0 : width_);
  }

  std::size_t count() const { return count_; }
  std::size_t width() const { return width_; }
  std::span<const float> row(std::size_t at) {
    if (stride_ == 1) return values_.subspan(at * width_, width_);
    for (std::size_t i = 0; i < width_; ++i) gathered_[i] = values_[i * stride_ + at];
    return gathered_;
  }

 private:
  std::span<const float> values_;
  std::size_t width_ = 0, count_ = 0, stride_ = 1;
  std::vector<float> gathered_;
};

}  // namespace

void OutputComparison::add(const SampleOutput& baseline, const SampleOutput& model) {
  if (!std::ranges::equal(baseline.shape, model.shape))
    throw Error("the model gives " + std::to_string(model.values.size()) + " numbers a sample in " +
                std::to_string(model.shape.size()) + " axes, and the baseline " +
                std::to_string(baseline.values.size()) + " in " + std::to_string(baseline.shape.size()));
  const std::span<const float> a = baseline.values, b = model.values;
  distortion_.add(a, b, 1);
  const std::uint64_t bad_baseline = count_not_finite(a), bad = count_not_finite(b);
  not_finite_ += bad;
  not_finite_baseline_ += bad_baseline;
  if (bad + bad_baseline > 0) {
    for (auto* values : {&noise_, &cosine_, &kl_}) values->push_back(kUndefined);
    return;
  }
  double square = 0, error = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = a[i], y = b[i];
    square += x * x;
    error += (x - y) * (x - y);
  }
  noise_.push_back(error == 0 ? 0 : error / square);
  cosine_.push_back(cosine(a, b));
  SampleRows from(baseline, axis_), to(model, axis_);
  if (axis_ != RowAxis::kNone && from.width() < 2) axis_ = RowAxis::kNone;
  if (axis_ == RowAxis::kNone || from.count() == 0) {
    kl_.push_back(kUndefined);
    return;
  }
  double kl = 0;
  for (std::size_t i = 0; i < from.count(); ++i) {
    const std::span<const float> p = from.row(i), q = to.row(i);
    if (!are_distributions_) are_distributions_ = is_distribution(p);
    kl += *are_distributions_ ? divergence_of_distributions(p, q) : divergence(LogitRow(p), LogitRow(q));
    same_ += largest_of(p) == largest_of(q);
  }
  rows_ += from.count();
  kl_.push_back(kl / static_cast<double>(from.count()));
}

double OutputComparison::distance(std::size_t sample) const {
  const double distance = has_rows() ? kl_[sample] : noise_[sample];
  return std::isnan(distance) ? kInfinite : distance;
}

OutputFigures OutputComparison::figures() const {
  const Distortion distortion = distortion_.result();
  OutputFigures made{.samples = samples(),
                     .sqnr_db = distortion.sqnr_db,
                     .max_abs_error = distortion.max_abs_error,
                     .cosine = kUndefined,
                     .least_cosine = kUndefined,
                     .not_finite = not_finite_,
                     .not_finite_baseline = not_finite_baseline_,
                     .rows = {}};
  double sum = 0;
  std::size_t count = 0;
  for (const double cosine : cosine_) {
    if (std::isnan(cosine)) continue;
    sum += cosine;
    made.least_cosine = count == 0 ? cosine : std::min(made.least_cosine, cosine);
    ++count;
  }
  if (count > 0) made.cosine = sum / static_cast<double>(count);
  if (!has_rows() || rows_ == 0) return made;
  std::vector<double> kl = kl_;
  std::erase_if(kl, [](double value) { return std::isnan(value); });
  double all = 0;
  for (const double value : kl) all += value;
  std::ranges::sort(kl);
  made.rows = {.are_distributions = *are_distributions_,
               .agreement = 100 * static_cast<double>(same_) / static_cast<double>(rows_),
               .kl_mean = all / static_cast<double>(kl.size()),
               .kl_median = quantile(kl, 0.5),
               .kl_p90 = quantile(kl, 0.9),
               .kl_p99 = quantile(kl, 0.99),
               .kl_p999 = quantile(kl, 0.999),
               .kl_largest = kl.back()};
  return made;
}

}  // namespace crumb::eval
