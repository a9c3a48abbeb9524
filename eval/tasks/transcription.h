// Texts that a network spells by connectionist temporal classification (Graves and others, 2006).
//
// Its greedy path: the largest score of each step (the first of equal ones), equal ones in a row taken once,
// blanks left out. Spaces at the ends of texts do not count.
//
//   cer  100 times the edits of characters (Unicode code points) that make the texts the labels, over the
//        labels' characters, all samples together
//   wer  the same of words, which white space parts (both as jiwer has them, times 100)
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "eval/tasks/scorer.h"

namespace crumb::eval {

/// The text of each class; the blank's is not read.
struct Alphabet {
  std::vector<std::string> symbols;
  std::size_t blank = 0;
};

/// Returns the text of the greedy path. Precondition: as many scores a step as there are symbols.
std::string greedy_text(std::span<const float> scores, const Alphabet& alphabet);

class Transcription final : public Scorer {
 public:
  explicit Transcription(Alphabet alphabet);
  /// The output is [steps, classes].
  void add(const SampleOutput& output, const SampleLabel& label) override;
  std::string answer(std::size_t sample) const override { return answers_[sample]; }
  std::string wanted(std::size_t sample) const override { return wanted_[sample]; }

 private:
  Alphabet alphabet_;
  SumMetric &cer_, &wer_;
  std::vector<std::string> answers_, wanted_;
};

}  // namespace crumb::eval
