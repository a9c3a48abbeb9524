// Samples for calibration of a sentence encoder from text: --data FILE.txt, a sentence a line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/quantize/calibrate.h"
#include "runtime/sentences/sentence_tokenizer.h"

namespace crumb::jobs {

/// Lines of one length run together, some at a time, the shortest first: nothing is filled up, and no sample
/// is a filler.
class CalibrationLines {
 public:
  /// Of `files`, the lines until `most` tokens are there (0: all). Throws usage Error where a file holds no
  /// words.
  CalibrationLines(const graph::Graph& graph, const runtime::SentenceTokenizer& tokenizer,
                   const std::vector<std::string>& files, std::size_t most);

  /// What this gives must not outlive it.
  graph::Batches batches() const;

 private:
  const graph::Graph* graph_;
  std::vector<std::vector<std::int64_t>> lines_;  ///< by length
};

}  // namespace crumb::jobs
