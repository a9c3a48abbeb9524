#include "eval/output_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/files/counted.h"
#include "eval/logit_row.h"

namespace crumb::eval {
namespace {

constexpr std::int64_t kIgnored = -100;

double cosine_of(std::span<const float> a, std::span<const float> b) {
  double product = 0, a_square = 0, b_square = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    product += static_cast<double>(a[i]) * b[i];
    a_square += static_cast<double>(a[i]) * a[i];
    b_square += static_cast<double>(b[i]) * b[i];
  }
  if (a_square == 0 || b_square == 0) return a_square == b_square ? 1 : 0;
  return std::clamp(product / std::sqrt(a_square * b_square), -1.0, 1.0);
}

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

void score_rows(std::span<const float> expected, std::span<const float> found, std::size_t width,
                const Labels& labels, Scores& scores) {
  const std::size_t rows = expected.size() / width;
  double kl = 0;
  std::size_t same = 0, right = 0, counted = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    const LogitRow from(expected.subspan(i * width, width)), to(found.subspan(i * width, width));
    kl += divergence(from, to);
    same += from.largest == to.largest;
    if (labels.classes.empty() || labels.classes[i] == kIgnored) continue;
    right += to.largest == static_cast<std::size_t>(labels.classes[i]);
    ++counted;
  }
  scores["kl"] = kl / static_cast<double>(rows);
  scores["agreement"] = static_cast<double>(same) / static_cast<double>(rows);
  if (counted > 0) scores["accuracy"] = static_cast<double>(right) / static_cast<double>(counted);
}

}  // namespace

void check_labels(const Labels& labels, std::size_t size, std::size_t width) {
  if (!labels.values.empty() && labels.values.size() != size)
    throw Error("the labels are " + count_text(labels.values.size(), "number") + ", and outputs have " +
                std::to_string(size));
  if (labels.classes.empty()) return;
  if (labels.classes.size() * width != size)
    throw Error("there are " + count_text(labels.classes.size(), "label") + ", and outputs have " +
                count_text(width == 0 ? 0 : size / width, "row") + " of " + std::to_string(width));
  const auto bad = std::ranges::find_if(labels.classes, [&](std::int64_t label) {
    return label != kIgnored && (label < 0 || label >= static_cast<std::int64_t>(width));
  });
  if (bad != labels.classes.end())
    throw Error("label " + std::to_string(bad - labels.classes.begin()) + " is " + std::to_string(*bad) +
                "; expected classes from 0 to " + std::to_string(width - 1) + ", or -100");
}

Scores score_outputs(std::span<const float> expected, std::span<const float> found, const ScoreShape& shape,
                     const Labels& labels, std::optional<double> peak) {
  Scores scores;
  if (expected.empty() || shape.samples == 0) return scores;
  const auto bad = std::ranges::find_if_not(found, [](float value) { return std::isfinite(value); });
  if (bad != found.end())
    throw Error("output " + std::to_string(bad - found.begin()) + " of " + std::to_string(found.size()) +
                " is " + number_text(*bad));
  const std::size_t sample = expected.size() / shape.samples;
  double cosine = 0;
  for (std::size_t i = 0; i < shape.samples; ++i)
    cosine += cosine_of(expected.subspan(i * sample, sample), found.subspan(i * sample, sample));
  scores["cosine"] = cosine / static_cast<double>(shape.samples);
  scores["psnr"] =
      psnr_of(labels.values.empty() ? expected : std::span<const float>(labels.values), found, peak);
  if (shape.width > 1) score_rows(expected, found, shape.width, labels, scores);
  return scores;
}

}  // namespace crumb::eval
