// Reads samples for calibration of a sentence encoder from text: --data FILE.txt, a sentence or a pair of
// texts a line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/quantize/calibrate.h"
#include "jobs/samples/tokenized_lines.h"
#include "runtime/sentences/sentence_tokenizer.h"

namespace crumb::jobs {

/// Runs lines of the same length together, some at a time, the shortest first: no line is padded, and no
/// sample is a filler.
class CalibrationLines {
 public:
  /// Reads the lines of `files` until there are `most` tokens (0: all); `pairs`: each holds two texts. Throws
  /// usage Error where a file holds no words.
  CalibrationLines(const graph::Graph& graph, const runtime::SentenceTokenizer& tokenizer,
                   const std::vector<std::string>& files, std::size_t most, bool pairs);

  /// The batches must not outlive this object.
  graph::Batches batches() const;

 private:
  const graph::Graph* graph_;
  std::size_t unpooled_;
  std::vector<TypedLine> lines_;  ///< in order of length
};

}  // namespace crumb::jobs
