// How far one output of a model is from the baseline's, sample by sample; needs no labels.
//
//   sqnr_db      10 log10(sum of the baseline's squares / sum of squared differences), over all numbers
//   cosine       mean over samples of sum a b / sqrt(sum a^2 sum b^2); two of zeros agree (1)
//   agreement    percent of rows whose largest element is at the same position, the first of equal ones
//   KL           of a row, the sum of p log(p / q) in nats, p being the baseline's. Where the baseline's
//                first row is a distribution (no number below 0, a sum within 0.001 of 1), rows are
//                distributions and are divided by their sums, and a q of 0 counts as 1.2e-38, float32's least
//                normal number; else p and q are the rows' softmax. A sample's KL is the mean over its rows
//                and the figures are of samples: mean, quantiles (between the two nearest, as numpy's
//                default) and largest
//
// Memory: 24 bytes a sample. Sums are float64, in the order of samples.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "eval/tasks/scorer.h"
#include "quant/distortion.h"

namespace crumb::eval {

/// What the rows of an output are: its last axis, the first one behind the samples' (classes of pixels), or
/// nothing that has a largest element.
enum class RowAxis : std::uint8_t { kNone, kLast, kFirst };

struct OutputFigures {
  std::size_t samples = 0;
  double sqnr_db = 0, max_abs_error = 0;
  double cosine = 0, least_cosine = 0;
  std::uint64_t not_finite = 0, not_finite_baseline = 0;  ///< numbers
  /// Of outputs with rows.
  struct Rows {
    bool are_distributions = false;
    double agreement = 0;
    double kl_mean = 0, kl_median = 0, kl_p90 = 0, kl_p99 = 0, kl_p999 = 0, kl_largest = 0;
  };
  std::optional<Rows> rows;
};

class OutputComparison {
 public:
  explicit OutputComparison(RowAxis axis) : axis_(axis) {}

  /// Samples with a number that is not finite count for sqnr_db and max_abs_error, which become infinite, and
  /// not for the other figures. Throws Error where the shapes differ.
  void add(const SampleOutput& baseline, const SampleOutput& model);
  OutputFigures figures() const;

  std::size_t samples() const { return noise_.size(); }
  /// By how much a sample's output differs: its KL, or where there are no rows its squared differences over
  /// the baseline's squares; infinite where it is not finite.
  double distance(std::size_t sample) const;
  bool has_rows() const { return axis_ != RowAxis::kNone; }

 private:
  RowAxis axis_;
  DistortionSum distortion_;
  std::vector<double> noise_, cosine_, kl_;  ///< NaN where a sample is not finite
  std::optional<bool> are_distributions_;
  std::uint64_t rows_ = 0, same_ = 0, not_finite_ = 0, not_finite_baseline_ = 0;
};

}  // namespace crumb::eval
