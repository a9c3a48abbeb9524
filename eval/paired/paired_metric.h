// A metric of two models that answered the same samples, and what is said of it: both figures, an interval
// of their difference, and how likely such a difference is between models that do not differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

namespace crumb::eval {

/// Samples that one of two models has right and the other wrong.
struct Discordant {
  std::uint64_t baseline_alone = 0, model_alone = 0;
};

class PairedMetric {
 public:
  PairedMetric() = default;
  PairedMetric(const PairedMetric&) = delete;
  PairedMetric& operator=(const PairedMetric&) = delete;
  virtual ~PairedMetric() = default;

  virtual std::size_t samples() const = 0;
  /// The metric of a data set that has sample i times[i] times, answered by the model where by_model[i] is
  /// not 0, and else by the baseline. NaN where it is undefined. Several threads may call it at once.
  virtual double value(std::span<const std::uint32_t> times,
                       std::span<const std::uint8_t> by_model) const = 0;
  /// Of metrics of right and wrong answers.
  virtual std::optional<Discordant> discordant() const { return std::nullopt; }
};

struct PairedOptions {
  /// Data sets that are drawn for the interval. With 2,000 an end of the interval, of which 50 of them lie
  /// outside, is known to 7 ranks: the 2.5 % are known to 0.35.
  std::size_t resamples = 2000;
  /// Choices of signs for the test, beside the one that happened. With 1,999 a p of 0.05 is known to 0.005,
  /// and the least p is 0.0005.
  std::size_t flips = 1999;
  std::uint64_t seed = 1;
  int threads = 0;  ///< 0: those that the machine has; never changes a number
};

struct PairedFigures {
  double baseline = 0, model = 0;
  double difference = 0;     ///< the model's less the baseline's
  double low = 0, high = 0;  ///< of the difference, at 95 %; NaN where there are fewer than two samples, or
                             ///< the difference is no finite number
  double p = 1;              ///< two-sided; NaN likewise
};

/// The figures of a metric.
///
/// The interval is the bias-corrected and accelerated bootstrap's (Efron 1987): data sets of as many samples
/// are drawn with replacement, both models' answers to a sample together, and the interval's ends are
/// quantiles of the metric's differences. The acceleration comes of a jackknife over at most 200 groups of
/// samples. The normal quantile is widened to sqrt(n / (n - 1)) times Student's t of n - 1 degrees, without
/// which few samples give intervals that are too short (Hesterberg 2015). Drawn data sets of which the metric
/// is undefined are left out; where they are more than half, the interval is NaN.
///
/// The test: for right and wrong answers McNemar's, exact (binomial); else the answers of each sample are
/// exchanged between the models with probability 1/2, and p is the share of such exchanges, the one that
/// happened among them, whose difference is at least as large.
PairedFigures compare_paired(const PairedMetric& metric, const PairedOptions& options = {});

/// McNemar's exact test: the two-sided probability, under 1/2, of a split at least as uneven.
double mcnemar(const Discordant& discordant);

}  // namespace crumb::eval
