// Scores what one model gives for samples against what it should give. One for each task.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "eval/paired/sample_metric.h"

namespace crumb::eval {

/// A class that is not counted, as PyTorch has it.
inline constexpr std::int64_t kIgnoredClass = -100;

/// One sample of an output, in row-major order; its shape has no axis of samples.
struct SampleOutput {
  std::span<const std::int64_t> shape;
  std::span<const float> values;
  bool are_whole = false;  ///< integers or yes and no: classes, where a task takes these
};

/// What a sample should give: what the task takes, and the rest empty.
struct SampleLabel {
  std::span<const std::int64_t> shape;  ///< of classes or values, without the axis of samples
  std::span<const std::int64_t> classes = {};
  std::span<const float> values = {};
  std::string_view text = {};
};

/// A metric of the samples of one class.
struct ClassFigure {
  std::size_t id = 0;
  std::uint64_t count = 0;  ///< of labels
  double value = 0;         ///< in percent
};

class Scorer {
 public:
  Scorer() = default;
  Scorer(const Scorer&) = delete;
  Scorer& operator=(const Scorer&) = delete;
  virtual ~Scorer() = default;

  /// Adds a sample. Throws Error where the label does not fit the output: says what was found and expected.
  virtual void add(const SampleOutput& output, const SampleLabel& label) = 0;
  /// In the order of tables; the first says which samples are worst. Of the same length for all models.
  std::span<const std::unique_ptr<SampleMetric>> metrics() const { return metrics_; }
  /// Of classes that labels have, in order; none where the task has no classes.
  virtual std::vector<ClassFigure> classes() const { return {}; }
  virtual std::string_view class_figure() const { return ""; }  ///< what classes() gives: "recall"
  /// [classes, classes], rows being labels and columns what the model gave; none where there is none, or
  /// there are more classes than ConfusionCounts::kMostClasses.
  virtual std::vector<std::vector<std::uint64_t>> confusion() const { return {}; }
  /// What the model gave for a sample, and what it should have; empty where that would be long.
  virtual std::string answer([[maybe_unused]] std::size_t sample) const { return ""; }
  virtual std::string wanted([[maybe_unused]] std::size_t sample) const { return ""; }

 protected:
  SumMetric& add_metric(std::unique_ptr<SumMetric> metric) {
    SumMetric& kept = *metric;
    metrics_.push_back(std::move(metric));
    return kept;
  }

 private:
  std::vector<std::unique_ptr<SampleMetric>> metrics_;
};

}  // namespace crumb::eval
