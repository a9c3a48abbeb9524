// Samples for calibration of a decoder from text: --data FILE.txt, or texts and conversations, FILE.jsonl.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "graph/quantize/calibrate.h"
#include "jobs/observer.h"
#include "text/text_tokenizer.h"

namespace crumb::jobs {

/// Tokens of a window; less, where the model has fewer positions.
inline constexpr std::size_t kCalibrationWindow = 512;

/// The tokens of one text after the other, in windows that lie side by side, each a sequence of its own with
/// nothing before it; the last one is as long as what is left. Where the tokenizer puts a token in front of
/// every text, each window begins with it.
class CalibrationText {
 public:
  /// Of `files`, as models are trained by them (training_text.h), questions included: the first `most` tokens
  /// (0: all). `read` gives the model's files. Throws Error: what read_training_text does, no tokens, an
  /// input of the graph that is no decoder's.
  CalibrationText(const graph::Graph& graph, const text::TextTokenizer& tokenizer, const text::ReadFile& read,
                  const std::vector<std::string>& files, std::size_t most, std::size_t positions,
                  Observer& observer);

  /// A window each. What this gives must not outlive it.
  graph::Batches batches() const;

  std::size_t tokens() const { return ids_.size(); }

 private:
  std::vector<graph::Tensor> window(std::size_t begin, std::size_t count) const;

  const graph::Graph* graph_;
  std::vector<text::TokenId> ids_;
  std::optional<text::TokenId> first_;
  std::size_t length_;  ///< of a window, the first token included
};

}  // namespace crumb::jobs
