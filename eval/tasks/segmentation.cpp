#include "eval/tasks/segmentation.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "eval/tasks/same_shape.h"

namespace crumb::eval {
namespace {

constexpr std::int64_t kIgnoredByte = 255;

}  // namespace

Segmentation::Segmentation(double threshold)
    : threshold_(threshold),
      iou_(add_metric(std::make_unique<SumMetric>(MetricName{.name = "mean_iou", .unit = "%", .digits = 2},
                                                  mean_percent_of_pairs, 2))),
      accuracy_(add_metric(std::make_unique<SumMetric>(
          MetricName{.name = "pixel_accuracy", .unit = "%", .digits = 2}, percent_of_sums, 2))) {}

void Segmentation::add(const SampleOutput& output, const SampleLabel& label) {
  const std::size_t pixels = label.classes.size();
  const std::vector<std::int64_t> given = long_axes(output.shape), labels = long_axes(label.shape);
  const bool has_one = given == labels;  // one number a pixel
  const bool has_classes = given.size() == labels.size() + 1 && output.shape.front() == given.front() &&
                           std::equal(labels.begin(), labels.end(), given.begin() + 1);
  if (pixels == 0 || (!has_one && !has_classes))
    throw Error(
        "segment takes outputs [classes, ...] and a class for each of the rest; a sample's output is " +
        shape_words(output.shape) + ", and its label " + shape_words(label.shape));
  const std::size_t classes = has_one ? 2 : static_cast<std::size_t>(output.shape.front());
  confusion_.resize(std::max(confusion_.size(), classes));
  for (auto& row : confusion_) row.resize(confusion_.size());
  std::vector<std::uint64_t> both(classes), of_labels(classes), of_outputs(classes);
  double right = 0, counted = 0;
  for (std::size_t i = 0; i < pixels; ++i) {
    const std::int64_t wanted = label.classes[i];
    if (wanted == kIgnoredClass || (wanted == kIgnoredByte && classes <= kIgnoredByte)) continue;
    if (wanted < 0 || static_cast<std::size_t>(wanted) >= classes)
      throw Error("the label of pixel " + std::to_string(i) + " is " + std::to_string(wanted) +
                  "; expected a class from 0 to " + std::to_string(classes - 1) + ", or -100");
    std::size_t found = 0;
    if (has_one) found = output.values[i] > threshold_ ? 1 : 0;
    for (std::size_t c = 1; c < classes && !has_one; ++c)
      if (output.values[c * pixels + i] > output.values[found * pixels + i]) found = c;
    const auto as = static_cast<std::size_t>(wanted);
    ++confusion_[as][found];
    ++of_labels[as];
    ++of_outputs[found];
    both[as] += as == found;
    right += as == found;
    ++counted;
  }
  std::vector<Term> terms;
  for (std::size_t c = 0; c < classes; ++c) {
    const std::uint64_t either = of_labels[c] + of_outputs[c] - both[c];
    if (either == 0) continue;
    const auto sum = static_cast<std::uint32_t>(2 * c);
    terms.insert(terms.end(), {{sum, static_cast<double>(both[c])}, {sum + 1, static_cast<double>(either)}});
  }
  iou_.add(terms);
  accuracy_.add(std::vector<Term>{{0, right}, {1, counted}});
}

std::vector<ClassFigure> Segmentation::classes() const {
  std::vector<ClassFigure> made;
  for (std::size_t c = 0; c < confusion_.size(); ++c) {
    std::uint64_t labels = 0, outputs = 0;
    for (std::size_t i = 0; i < confusion_.size(); ++i) {
      labels += confusion_[c][i];
      outputs += confusion_[i][c];
    }
    if (labels == 0) continue;
    const auto both = static_cast<double>(confusion_[c][c]);
    made.push_back(
        {.id = c, .count = labels, .value = 100 * both / (static_cast<double>(labels + outputs) - both)});
  }
  return made;
}

}  // namespace crumb::eval
