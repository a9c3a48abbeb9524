// Lines of a text as tokens of a sentence encoder: what it trains by, and what it is calibrated by.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/sentences/sentence_tokenizer.h"

namespace crumb::jobs {

/// Of each line that has words its tokens' ids, [CLS] and [SEP] around them. Throws usage Error where there
/// is none.
std::vector<std::vector<std::int64_t>> tokenized_lines(const std::string& file,
                                                       const runtime::SentenceTokenizer& tokenizer);

}  // namespace crumb::jobs
