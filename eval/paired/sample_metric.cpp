#include "eval/paired/sample_metric.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace crumb::eval {

/// Sums of samples, each of one of two models.
class SumsOfTwo final : public PairedMetric {
 public:
  SumsOfTwo(const SumMetric& baseline, const SumMetric& model)
      : baseline_(baseline),
        model_(model),
        width_(std::max({baseline.least_, baseline.sums_.width(), model.sums_.width()})) {}

  std::size_t samples() const override { return baseline_.sums_.samples(); }

  double value(std::span<const std::uint32_t> times, std::span<const std::uint8_t> by_model) const override {
    std::vector<double> sums(width_);
    for (std::size_t i = 0; i < times.size(); ++i) {
      if (times[i] == 0) continue;
      for (const Term& term : (by_model[i] != 0 ? model_ : baseline_).sums_.of(i))
        sums[term.sum] += times[i] * term.value;
    }
    return baseline_.figure_(sums);
  }

  std::optional<Discordant> discordant() const override {
    if (!baseline_.is_right_) return std::nullopt;
    Discordant found;
    for (std::size_t i = 0; i < samples(); ++i) {
      const auto one = baseline_.sums_.of(i), other = model_.sums_.of(i);
      if (one.empty()) continue;  // a sample that does not count
      found.baseline_alone += one[0].value > other[0].value;
      found.model_alone += one[0].value < other[0].value;
    }
    return found;
  }

 private:
  const SumMetric& baseline_;
  const SumMetric& model_;
  std::size_t width_;
};

std::unique_ptr<SumMetric> SumMetric::of_right(MetricName name) {
  constexpr std::size_t kRightAndCounted = 2;
  auto metric = std::make_unique<SumMetric>(name, percent_of_sums, kRightAndCounted);
  metric->is_right_ = true;
  return metric;
}

std::unique_ptr<PairedMetric> SumMetric::paired_with(const SampleMetric& model) const {
  return std::make_unique<SumsOfTwo>(*this, dynamic_cast<const SumMetric&>(model));
}

std::optional<double> SumMetric::of_sample(std::size_t sample) const {
  const std::span<const Term> terms = sums_.of(sample);
  if (terms.empty()) return std::nullopt;
  std::vector<double> sums(std::max(least_, sums_.width()));
  for (const Term& term : terms) sums[term.sum] += term.value;
  const double value = figure_(sums);
  return std::isnan(value) ? std::nullopt : std::optional(value);
}

double percent_of_sums(std::span<const double> sums) { return 100 * sums[0] / sums[1]; }
double mean_percent_of_pairs(std::span<const double> sums) {
  double sum = 0;
  std::size_t pairs = 0;
  for (std::size_t i = 0; i + 1 < sums.size(); i += 2) {
    if (sums[i + 1] == 0) continue;
    sum += sums[i] / sums[i + 1];
    ++pairs;
  }
  return pairs == 0 ? std::numeric_limits<double>::quiet_NaN() : 100 * sum / static_cast<double>(pairs);
}

double mean_of_sums(std::span<const double> sums) { return sums[0] / sums[1]; }

}  // namespace crumb::eval
