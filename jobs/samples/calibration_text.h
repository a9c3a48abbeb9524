// Reads samples for calibration of a decoder: --data FILE.txt, or texts and conversations, FILE.jsonl.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "graph/quantize/calibrate.h"
#include "jobs/observer.h"
#include "text/text_tokenizer.h"

namespace crumb::jobs {

/// Tokens of a window; fewer where the model has fewer positions.
inline constexpr std::size_t kCalibrationWindow = 512;

/// Cuts the tokens of one text after the other into adjacent windows, each a sequence of its own with no
/// past; the last window holds what is left. Where the tokenizer puts a token before every text, each window
/// begins with it.
class CalibrationText {
 public:
  /// Reads `files` as training reads them (training_text.h), questions included: the first `most` tokens (0:
  /// all). `read` returns the model's files. Throws what read_training_text throws, and Error where there are
  /// no tokens, or the graph has an input that no decoder has.
  CalibrationText(const graph::Graph& graph, const text::TextTokenizer& tokenizer, const text::ReadFile& read,
                  const std::vector<std::string>& files, std::size_t most, std::size_t positions,
                  Observer& observer);

  /// Returns one window a batch. The batches must not outlive this object.
  graph::Batches batches() const;

  std::size_t tokens() const { return ids_.size(); }

 private:
  std::vector<graph::Tensor> window(std::size_t begin, std::size_t count) const;

  const graph::Graph* graph_;
  std::vector<text::TokenId> ids_;
  std::optional<text::TokenId> first_;
  std::size_t length_;  ///< of a window, its first token included
};

}  // namespace crumb::jobs
