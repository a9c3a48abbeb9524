// Classes of pixels: the largest along the first axis of a sample's output against a label for each pixel.
//
//   mean_iou        the mean over classes, of those that labels or outputs have, of the percent that pixels
//                   of both are of those of either (scikit-learn's jaccard_score, average="macro", times 100)
//   pixel_accuracy  percent of pixels whose class is the label
//
// Both over the pixels of all samples together. An output of one number a pixel holds classes where its
// numbers are whole, else class 1 above a threshold. Pixels whose label is -100 do not count, nor those of
// 255 where there are fewer classes or the output holds classes.
#pragma once

#include "eval/tasks/confusion_counts.h"
#include "eval/tasks/scorer.h"

namespace crumb::eval {

class Segmentation final : public Scorer {
 public:
  /// `threshold`: an output of one float a pixel is class 1 where it is above, else class 0.
  explicit Segmentation(double threshold);
  /// The output is [classes, ...], or [1, ...] or [...]; the label has classes of the rest.
  void add(const SampleOutput& output, const SampleLabel& label) override;
  /// The percent of pixels of both, of those of either.
  std::vector<ClassFigure> classes() const override;
  std::string_view class_figure() const override { return "iou"; }
  std::vector<std::vector<std::uint64_t>> confusion() const override { return confusion_.matrix(); }

 private:
  double threshold_;
  SumMetric &iou_, &accuracy_;
  ConfusionCounts confusion_;
};

}  // namespace crumb::eval
