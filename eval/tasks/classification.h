// Classes of samples: the largest of a row of scores against a label.
//
//   top1, top5         percent of samples whose label is the largest score (the first of equal ones), or
//                      among the five that come first when scores are sorted, of equal ones the first first
//   balanced_accuracy  the mean over classes that labels have of the percent that is right of that class
//                      (scikit-learn's balanced_accuracy_score times 100)
//
// A model may also give one number a sample: whole numbers are classes, and a float is class 1 above a
// threshold, else class 0. Samples whose label is -100 do not count.
#pragma once

#include "eval/tasks/confusion_counts.h"
#include "eval/tasks/scorer.h"

namespace crumb::eval {

class Classification final : public Scorer {
 public:
  /// `has_scores`: every model gives a row of scores; else there is no top5. `threshold`: of one float.
  Classification(bool has_scores, double threshold);
  /// The output has one axis longer than 1, or one number, and the label one class.
  void add(const SampleOutput& output, const SampleLabel& label) override;
  /// The percent that is right of each class.
  std::vector<ClassFigure> classes() const override;
  std::string_view class_figure() const override { return "recall"; }
  std::vector<std::vector<std::uint64_t>> confusion() const override { return confusion_.matrix(); }
  std::string answer(std::size_t sample) const override { return std::to_string(found_[sample]); }
  std::string wanted(std::size_t sample) const override { return std::to_string(labels_[sample]); }

 private:
  /// Throws Error where the output has neither scores nor one class.
  std::size_t found_in(const SampleOutput& output) const;

  double threshold_;
  SumMetric& top1_;
  SumMetric* top5_;
  SumMetric& balanced_;
  ConfusionCounts confusion_;
  std::vector<std::int32_t> found_, labels_;  ///< of each sample
};

}  // namespace crumb::eval
