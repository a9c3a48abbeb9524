// The lines of a text as token ids for a sentence encoder.
#pragma once

#include <string>
#include <vector>

#include "formats/checkpoint/sentence_modules.h"
#include "text/tokenizer.h"

namespace crumb::runtime {

class SentenceTokenizer {
 public:
  /// `text`: the files of a checkpoint except for its tensors; `name` names it in messages. Throws Error
  /// where a file is missing or damaged, and where the tokenizer has more ids than there are embeddings.
  static SentenceTokenizer load(const ModelText& text, const std::string& name);

  /// The ids, cut at the tokenizer's limit and at max_position_embeddings. A default prompt in
  /// config_sentence_transformers.json is put before every line.
  std::vector<text::TokenId> encode(const std::string& line) const {
    return tokenizer_.encode(prompt_.empty() ? line : prompt_ + line);
  }

  const text::Tokenizer& tokenizer() const { return tokenizer_; }
  void limit_length(std::size_t tokens) { tokenizer_.limit_length(tokens); }

 private:
  SentenceTokenizer(text::Tokenizer tokenizer, std::string prompt)
      : tokenizer_(std::move(tokenizer)), prompt_(std::move(prompt)) {}

  text::Tokenizer tokenizer_;
  std::string prompt_;
};

}  // namespace crumb::runtime
