// The contents of a checkpoint's tokenizer files in one value. Tokenizer::load says which files are read, and
// which takes precedence.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "text/pipeline/steps.h"
#include "text/tokenizer.h"

namespace crumb::text {

struct TokenizerSettings {
  Vocabulary vocabulary;
  WordPiece::Options wordpiece;
  NormalizerOptions normalizer;
  std::vector<AddedToken> added_tokens;
  TokenId cls = 0;
  TokenId sep = 0;
  PairTemplate pairs;  ///< tokenizer.json's; else [CLS] first [SEP] second [SEP], MPNet's with two between
  std::optional<size_t> max_length;
};

TokenizerSettings read_tokenizer_files(const ReadFile& read, const std::string& path);

}  // namespace crumb::text
