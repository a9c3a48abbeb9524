#include "eval/tasks/segmentation.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/files/counted.h"
#include "eval/tasks/same_shape.h"

namespace crumb::eval {
namespace {

constexpr std::int64_t kIgnoredByte = 255;
constexpr std::size_t kPixelClassesEnd = 1 << 16;  ///< of models that give classes

/// The classes that a model gives: that of the largest number along the first axis, or the number itself, or
/// by the threshold.
class FoundClasses {
 public:
  FoundClasses(const SampleOutput& output, bool has_one, std::size_t pixels, double threshold)
      : output_(output), has_one_(has_one), pixels_(pixels), threshold_(threshold) {}

  /// One more than the largest class that there may be.
  std::size_t end() const {
    if (!has_one_) return static_cast<std::size_t>(output_.shape.front());
    return output_.are_whole ? kPixelClassesEnd : 2;
  }
  /// Throws Error where the number is no class.
  std::size_t at(std::size_t pixel) const {
    if (has_one_) {
      const float value = output_.values[pixel];
      if (!output_.are_whole) return value > threshold_ ? 1 : 0;
      if (!(value >= 0 && value < static_cast<float>(kPixelClassesEnd)))
        throw Error("the output of pixel " + std::to_string(pixel) + " is " + number_text(value) +
                    "; expected a class from 0 to " + std::to_string(kPixelClassesEnd - 1));
      return static_cast<std::size_t>(value);
    }
    std::size_t found = 0;
    for (std::size_t c = 1; c < end(); ++c)
      if (output_.values[c * pixels_ + pixel] > output_.values[found * pixels_ + pixel]) found = c;
    return found;
  }

 private:
  const SampleOutput& output_;
  bool has_one_;
  std::size_t pixels_;
  double threshold_;
};

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
  const FoundClasses model(output, has_one, pixels, threshold_);
  const bool is_open = has_one && output.are_whole;  // how many classes there are, nobody says
  if (!is_open) confusion_.widen(model.end());
  std::vector<std::uint64_t> both(confusion_.classes()), of_labels = both, of_outputs = both;
  double right = 0, counted = 0;
  for (std::size_t i = 0; i < pixels; ++i) {
    const std::int64_t wanted = label.classes[i];
    if (wanted == kIgnoredClass || (wanted == kIgnoredByte && (is_open || model.end() <= kIgnoredByte)))
      continue;
    if (wanted < 0 || static_cast<std::size_t>(wanted) >= model.end())
      throw Error("the label of pixel " + std::to_string(i) + " is " + std::to_string(wanted) +
                  "; expected a class from 0 to " + std::to_string(model.end() - 1) + ", or -100");
    const std::size_t found = model.at(i);
    const auto as = static_cast<std::size_t>(wanted);
    if (const std::size_t most = std::max(found, as); most >= confusion_.classes()) {
      confusion_.widen(most + 1);
      for (auto* counts : {&both, &of_labels, &of_outputs}) counts->resize(most + 1);
    }
    confusion_.add(as, found);
    ++of_labels[as];
    ++of_outputs[found];
    both[as] += as == found;
    right += as == found;
    ++counted;
  }
  std::vector<Term> terms;
  for (std::size_t c = 0; c < both.size(); ++c) {
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
  for (std::size_t c = 0; c < confusion_.classes(); ++c) {
    const std::uint64_t labels = confusion_.wanted(c), both = confusion_.both(c);
    if (labels > 0)
      made.push_back({.id = c,
                      .count = labels,
                      .value = 100 * static_cast<double>(both) /
                               static_cast<double>(labels + confusion_.found(c) - both)});
  }
  return made;
}

}  // namespace crumb::eval
