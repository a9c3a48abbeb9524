// The rank correlation of a model's figures of samples with labels.
#pragma once

#include <vector>

#include "eval/paired/sample_metric.h"

namespace crumb::eval {

/// Spearman's: Pearson's correlation of ranks, equal values sharing their average rank (scipy's spearmanr).
/// NaN where all values of one side are equal.
class RankMetric final : public SampleMetric {
 public:
  explicit RankMetric(MetricName name) : SampleMetric(name) {}
  /// Neither is NaN.
  void add(double figure, double label);
  std::unique_ptr<PairedMetric> paired_with(const SampleMetric& model) const override;
  std::optional<double> of_sample(std::size_t) const override { return std::nullopt; }

 private:
  friend class RanksOfTwo;
  std::vector<double> figures_, labels_;
};

}  // namespace crumb::eval
