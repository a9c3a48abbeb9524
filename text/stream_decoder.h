// Text of tokens as they come.
#pragma once

#include <memory>
#include <string>

#include "text/text_tokenizer.h"

namespace crumb::text {

/// Returns for each id the text that no later id can change, in whole characters. Held back are: bytes that
/// may yet become a character, a run of tokens that stand for bytes (until another token follows), and what
/// the tokenizer's decoder strips or replaces at the end of a token. Move-only, not thread-safe.
class StreamDecoder {
 public:
  explicit StreamDecoder(TextTokenizer tokenizer, bool skip_special = true);
  StreamDecoder(StreamDecoder&&) noexcept;
  StreamDecoder& operator=(StreamDecoder&&) noexcept;
  ~StreamDecoder();

  /// Throws Error as TextTokenizer::decode does.
  std::string push(TokenId id);
  /// Returns what was held back. The next id begins a new text.
  std::string finish();

 private:
  void begin();

  TextTokenizer tokenizer_;
  bool skip_special_;
  std::unique_ptr<std::string> text_;  // what the stages have put out
  std::unique_ptr<TokenSink> stages_;
};

}  // namespace crumb::text
