#include "eval/tasks/classification.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/files/counted.h"
#include "eval/tasks/same_shape.h"

namespace crumb::eval {
namespace {

constexpr std::int32_t kClassesEnd = 1 << 20;  ///< of models that give a class: each costs a count

/// How many scores come before that of `id` when they are sorted; one that is no number comes last.
std::size_t place_of(std::span<const float> scores, std::size_t id) {
  std::size_t before = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const bool is_number = !std::isnan(scores[i]), is_own_number = !std::isnan(scores[id]);
    if (is_number != is_own_number)
      before += is_number;
    else
      before += is_number && scores[i] != scores[id] ? scores[i] > scores[id] : i < id;
  }
  return before;
}

/// The first of the largest scores.
std::size_t first_of(std::span<const float> scores) {
  std::size_t first = 0;
  for (std::size_t i = 1; i < scores.size(); ++i)
    if (scores[i] > scores[first] || (std::isnan(scores[first]) && !std::isnan(scores[i]))) first = i;
  return first;
}

}  // namespace

Classification::Classification(bool has_scores, double threshold)
    : threshold_(threshold),
      top1_(add_metric(SumMetric::of_right({.name = "top1", .unit = "%", .digits = 2}))),
      top5_(has_scores ? &add_metric(SumMetric::of_right({.name = "top5", .unit = "%", .digits = 2}))
                       : nullptr),
      balanced_(add_metric(std::make_unique<SumMetric>(
          MetricName{.name = "balanced_accuracy", .unit = "%", .digits = 2}, mean_percent_of_pairs, 2))) {}

std::size_t Classification::found_in(const SampleOutput& output) const {
  const std::size_t width = output.values.size();
  const auto longest = output.shape.empty() ? 1 : *std::ranges::max_element(output.shape);
  if (width == 0 || static_cast<std::size_t>(longest) != width)
    throw Error("classify takes one row of scores a sample, or one class, and the output is " +
                shape_words(output.shape));
  if (width > 1) return first_of(output.values);
  const float value = output.values[0];
  if (!output.are_whole) return value > threshold_ ? 1 : 0;
  if (!(value >= 0 && value < kClassesEnd))
    throw Error("the output is " + number_text(value) + "; expected a class from 0 to " +
                std::to_string(kClassesEnd - 1));
  return static_cast<std::size_t>(value);
}

void Classification::add(const SampleOutput& output, const SampleLabel& label) {
  const std::size_t found = found_in(output), width = output.values.size();
  if (label.classes.size() != 1)
    throw Error("classify takes one class a sample, and a sample's label is " + shape_words(label.shape));
  const std::int64_t given = label.classes[0];
  const bool counts = given != kIgnoredClass;
  const std::size_t classes = width > 1 ? width : output.are_whole ? std::size_t{kClassesEnd} : 2;
  if (counts && (given < 0 || static_cast<std::size_t>(given) >= classes))
    throw Error("the label is " + std::to_string(given) + "; expected a class from 0 to " +
                std::to_string(classes - 1) + ", or -100");
  found_.push_back(static_cast<std::int32_t>(found));
  labels_.push_back(static_cast<std::int32_t>(given));
  confusion_.widen(width > 1 || !output.are_whole ? classes : found + 1);
  if (!counts) {
    for (SumMetric* metric : {&top1_, top5_, &balanced_})
      if (metric) metric->add({});
    return;
  }
  const auto wanted = static_cast<std::size_t>(given);
  confusion_.widen(wanted + 1);
  confusion_.add(wanted, found);
  const std::size_t place = width > 1 ? place_of(output.values, wanted) : found == wanted ? 0 : 1;
  const double first = place == 0 ? 1 : 0;
  const auto sum = static_cast<std::uint32_t>(2 * wanted);
  top1_.add(std::vector<Term>{{0, first}, {1, 1}});
  constexpr std::size_t kFive = 5;
  if (top5_) top5_->add(std::vector<Term>{{0, place < kFive ? 1.0 : 0.0}, {1, 1}});
  balanced_.add(std::vector<Term>{{sum, first}, {sum + 1, 1}});
}

std::vector<ClassFigure> Classification::classes() const {
  std::vector<ClassFigure> made;
  for (std::size_t i = 0; i < confusion_.classes(); ++i)
    if (const auto count = static_cast<double>(confusion_.wanted(i)); count > 0)
      made.push_back({.id = i,
                      .count = confusion_.wanted(i),
                      .value = 100 * static_cast<double>(confusion_.both(i)) / count});
  return made;
}

}  // namespace crumb::eval
