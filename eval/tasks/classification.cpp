#include "eval/tasks/classification.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace crumb::eval {
namespace {

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

Classification::Classification()
    : top1_(add_metric(SumMetric::of_right({.name = "top1", .unit = "%", .digits = 2}))),
      top5_(add_metric(SumMetric::of_right({.name = "top5", .unit = "%", .digits = 2}))),
      balanced_(add_metric(std::make_unique<SumMetric>(
          MetricName{.name = "balanced_accuracy", .unit = "%", .digits = 2}, mean_percent_of_pairs, 2))) {}

void Classification::add(const SampleOutput& output, const SampleLabel& label) {
  const std::size_t width = output.values.size();
  const auto longest = output.shape.empty() ? 0 : *std::ranges::max_element(output.shape);
  if (width < 2 || static_cast<std::size_t>(longest) != width)
    throw Error("classify takes one row of scores a sample, and the output has " + std::to_string(width) +
                " numbers in " + std::to_string(output.shape.size()) + " axes");
  if (label.classes.size() != 1)
    throw Error("classify takes one class a sample, and the labels have " +
                std::to_string(label.classes.size()));
  const std::int64_t given = label.classes[0];
  const bool counts = given != kIgnoredClass;
  if (counts && (given < 0 || static_cast<std::size_t>(given) >= width))
    throw Error("the label is " + std::to_string(given) + "; expected a class from 0 to " +
                std::to_string(width - 1) + ", or -100");
  const std::size_t found = first_of(output.values);
  found_.push_back(static_cast<std::int32_t>(found));
  labels_.push_back(static_cast<std::int32_t>(given));
  confusion_.resize(std::max(confusion_.size(), width));
  for (auto& row : confusion_) row.resize(confusion_.size());
  if (!counts) {
    for (SumMetric* metric : {&top1_, &top5_, &balanced_}) metric->add({});
    return;
  }
  const auto wanted = static_cast<std::size_t>(given);
  ++confusion_[wanted][found];
  constexpr std::size_t kFive = 5;
  const std::size_t place = place_of(output.values, wanted);
  const double first = place == 0 ? 1 : 0, among = place < kFive ? 1 : 0;
  const auto sum = static_cast<std::uint32_t>(2 * wanted);
  top1_.add(std::vector<Term>{{0, first}, {1, 1}});
  top5_.add(std::vector<Term>{{0, among}, {1, 1}});
  balanced_.add(std::vector<Term>{{sum, first}, {sum + 1, 1}});
}

std::vector<ClassFigure> Classification::classes() const {
  std::vector<ClassFigure> made;
  for (std::size_t i = 0; i < confusion_.size(); ++i) {
    std::uint64_t count = 0;
    for (const std::uint64_t found : confusion_[i]) count += found;
    if (count > 0)
      made.push_back({.id = i,
                      .count = count,
                      .value = 100 * static_cast<double>(confusion_[i][i]) / static_cast<double>(count)});
  }
  return made;
}

}  // namespace crumb::eval
