#include "eval/tasks/transcription.h"

#include <algorithm>

#include "base/error.h"
#include "eval/tasks/edits.h"
#include "eval/tasks/same_shape.h"

namespace crumb::eval {
namespace {

constexpr std::string_view kSpaces = " \t\n\v\f\r";

std::string_view without_ends(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

/// The bytes of each code point of UTF-8.
std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> found;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) ++end;
    found.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return found;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> found;
  for (std::size_t begin = text.find_first_not_of(kSpaces); begin != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kSpaces, begin), text.size());
    found.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kSpaces, end);
  }
  return found;
}

void add_edits(SumMetric& metric, const std::vector<std::string_view>& wanted,
               const std::vector<std::string_view>& found) {
  metric.add(std::vector<Term>{{0, static_cast<double>(count_edits(wanted, found))},
                               {1, static_cast<double>(wanted.size())}});
}

}  // namespace

std::string greedy_text(std::span<const float> scores, const Alphabet& alphabet) {
  const std::size_t classes = alphabet.symbols.size();
  std::string text;
  std::size_t before = alphabet.blank;
  for (std::size_t step = 0; step < scores.size() / classes; ++step) {
    const auto row = scores.subspan(step * classes, classes);
    const auto found = static_cast<std::size_t>(std::ranges::max_element(row) - row.begin());
    if (found != before && found != alphabet.blank) text += alphabet.symbols[found];
    before = found;
  }
  return text;
}

Transcription::Transcription(Alphabet alphabet)
    : alphabet_(std::move(alphabet)),
      cer_(add_metric(std::make_unique<SumMetric>(
          MetricName{.name = "cer", .unit = "%", .more_is_better = false, .digits = 3}, percent_of_sums, 2))),
      wer_(add_metric(std::make_unique<SumMetric>(
          MetricName{.name = "wer", .unit = "%", .more_is_better = false, .digits = 3}, percent_of_sums,
          2))) {}

void Transcription::add(const SampleOutput& output, const SampleLabel& label) {
  const std::size_t classes = alphabet_.symbols.size();
  if (output.shape.size() != 2 || static_cast<std::size_t>(output.shape[1]) != classes)
    throw Error("ctc takes outputs [steps, " + std::to_string(classes) +
                "] for this alphabet, and a sample's is " + shape_words(output.shape));
  const std::string& found = answers_.emplace_back(greedy_text(output.values, alphabet_));
  const std::string& wanted = wanted_.emplace_back(label.text);
  add_edits(cer_, characters_of(without_ends(wanted)), characters_of(without_ends(found)));
  add_edits(wer_, words_of(wanted), words_of(found));
}

}  // namespace crumb::eval
