// A metric of one model, and what each sample brought to it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "eval/paired/paired_metric.h"
#include "eval/paired/sample_sums.h"

namespace crumb::eval {

struct MetricName {
  std::string_view name;       ///< "top1"
  std::string_view unit = "";  ///< "%", "dB"; that of the label where empty
  bool more_is_better = true;
  int digits = 4;  ///< of a table
};

class SampleMetric {
 public:
  explicit SampleMetric(MetricName name) : name_(name) {}
  SampleMetric(const SampleMetric&) = delete;
  SampleMetric& operator=(const SampleMetric&) = delete;
  virtual ~SampleMetric() = default;

  const MetricName& name() const { return name_; }
  /// What a pair of models is compared by. `model`: the other model's metric of the same kind, of the same
  /// samples. Both must outlive it.
  virtual std::unique_ptr<PairedMetric> paired_with(const SampleMetric& model) const = 0;
  /// The metric of a sample by itself; nothing where one sample has none.
  virtual std::optional<double> of_sample(std::size_t sample) const = 0;

 private:
  MetricName name_;
};

/// A function of sums over samples.
class SumMetric final : public SampleMetric {
 public:
  using Figure = double (*)(std::span<const double> sums);

  /// `sums`: at least so many are there for `figure`, 0 where no sample names them.
  SumMetric(MetricName name, Figure figure, std::size_t sums)
      : SampleMetric(name), figure_(figure), least_(sums) {}
  /// Of samples that are right or wrong: figure(right, counted) is their share, and McNemar's test is exact.
  static std::unique_ptr<SumMetric> of_right(MetricName name);

  void add(std::span<const Term> sample) { sums_.add(sample); }
  const SampleSums& sums() const { return sums_; }
  std::unique_ptr<PairedMetric> paired_with(const SampleMetric& model) const override;
  std::optional<double> of_sample(std::size_t sample) const override;

 private:
  friend class SumsOfTwo;

  Figure figure_;
  std::size_t least_;
  bool is_right_ = false;
  SampleSums sums_;
};

/// 100 times the first sum over the second.
double percent_of_sums(std::span<const double> sums);
/// 100 times the mean of the first sum over the second, the third over the fourth, ..., of those pairs whose
/// second is not 0: a mean over classes. NaN where there is none.
double mean_percent_of_pairs(std::span<const double> sums);
/// The first sum over the second.
double mean_of_sums(std::span<const double> sums);

}  // namespace crumb::eval
