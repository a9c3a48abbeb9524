// Reads lines of a text as tokens of a sentence encoder, for training and calibration.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/sentences/sentence_tokenizer.h"

namespace crumb::jobs {

/// Returns the token ids of each line that has words, with [CLS] before and [SEP] after them. Throws usage
/// Error where there is no such line.
std::vector<std::vector<std::int64_t>> tokenized_lines(const std::string& file,
                                                       const runtime::SentenceTokenizer& tokenizer);

/// A row of tokens with the type of each.
struct TypedLine {
  std::vector<std::int64_t> ids, types;
};

/// The same of lines that hold two texts each (read_lines.h), of which one may be empty.
std::vector<TypedLine> tokenized_pairs(const std::string& file, const runtime::SentenceTokenizer& tokenizer);

}  // namespace crumb::jobs
