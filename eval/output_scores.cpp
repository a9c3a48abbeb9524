#include "eval/output_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/files/counted.h"
#include "eval/logit_row.h"
#include "quant/agreement.h"

namespace crumb::eval {
namespace {

constexpr std::int64_t kIgnored = -100;

double psnr_of(std::span<const float> wanted, std::span<const float> found, std::optional<double> peak) {
  const auto [least, greatest] = std::ranges::minmax(wanted);
  const double most = peak ? *peak : static_cast<double>(greatest) - least;
  double squares = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double error = static_cast<double>(wanted[i]) - found[i];
    squares += error * error;
  }
  if (squares == 0) return std::numeric_limits<double>::infinity();
  return 10 * std::log10(most * most * static_cast<double>(wanted.size()) / squares);
}

/// Sums over rows.
struct Rows {
  double kl = 0;
  std::size_t count = 0, same = 0, right = 0, counted = 0;

  /// `classes`: of these rows, or none.
  void add(std::span<const float> expected, std::span<const float> found, std::size_t width,
           std::span<const std::int64_t> classes) {
    const std::size_t rows = expected.size() / width;
    for (std::size_t i = 0; i < rows; ++i) {
      const LogitRow from(expected.subspan(i * width, width)), to(found.subspan(i * width, width));
      kl += divergence(from, to);
      same += from.largest == to.largest;
      if (classes.empty() || classes[i] == kIgnored) continue;
      right += to.largest == static_cast<std::size_t>(classes[i]);
      ++counted;
    }
    count += rows;
  }

  void give(Scores& scores) const {
    if (count == 0) return;
    scores["kl"] = kl / static_cast<double>(count);
    scores["agreement"] = static_cast<double>(same) / static_cast<double>(count);
    if (counted > 0) scores["accuracy"] = static_cast<double>(right) / static_cast<double>(counted);
  }
};

std::size_t rows_of(const ScoreShape& shape) { return shape.width == 0 ? 0 : shape.size / shape.width; }

}  // namespace

void check_labels(const Labels& labels, ScoreShapes shapes) {
  std::size_t size = 0, rows = 0;
  for (const ScoreShape& shape : shapes) {
    size += shape.size;
    rows += rows_of(shape);
  }
  if (!labels.values.empty() && labels.values.size() != size)
    throw Error("the labels are " + count_text(labels.values.size(), "number") + ", and outputs have " +
                std::to_string(size));
  if (labels.classes.empty()) return;
  if (labels.classes.size() != rows)
    throw Error("there are " + count_text(labels.classes.size(), "label") + ", and outputs have " +
                count_text(rows, "row") + (shapes.empty() ? "" : " of " + std::to_string(shapes[0].width)));
  std::size_t place = 0;
  for (const ScoreShape& shape : shapes) {
    for (const std::size_t end = place + rows_of(shape); place < end; ++place) {
      const std::int64_t label = labels.classes[place];
      if (label == kIgnored || (label >= 0 && label < static_cast<std::int64_t>(shape.width))) continue;
      throw Error("label " + std::to_string(place) + " is " + std::to_string(label) +
                  "; expected classes from 0 to " + std::to_string(shape.width - 1) + ", or -100");
    }
  }
}

Scores score_outputs(std::span<const float> expected, std::span<const float> found, ScoreShapes shapes,
                     const Labels& labels, std::optional<double> peak) {
  Scores scores;
  if (expected.empty()) return scores;
  const auto bad = std::ranges::find_if_not(found, [](float value) { return std::isfinite(value); });
  if (bad != found.end())
    throw Error("output " + std::to_string(bad - found.begin()) + " of " + std::to_string(found.size()) +
                " is " + number_text(*bad));
  double cosines = 0;
  std::size_t samples = 0, begin = 0, row = 0;
  Rows rows;
  for (const ScoreShape& shape : shapes) {
    const auto wanted = expected.subspan(begin, shape.size), made = found.subspan(begin, shape.size);
    const std::size_t sample = shape.samples == 0 ? 0 : shape.size / shape.samples;
    for (std::size_t i = 0; i < shape.samples; ++i)
      cosines += cosine(wanted.subspan(i * sample, sample), made.subspan(i * sample, sample));
    const auto classes = std::span(labels.classes);
    if (shape.width > 1)
      rows.add(wanted, made, shape.width, classes.empty() ? classes : classes.subspan(row, rows_of(shape)));
    samples += shape.samples;
    begin += shape.size;
    row += rows_of(shape);
  }
  if (samples == 0) return scores;
  scores["cosine"] = cosines / static_cast<double>(samples);
  scores["psnr"] =
      psnr_of(labels.values.empty() ? expected : std::span<const float>(labels.values), found, peak);
  rows.give(scores);
  return scores;
}

}  // namespace crumb::eval
