// Tokenizers as a Hugging Face tokenizer.json describes them (BPE and Unigram; what is read of the steps around them is
// in pipeline/steps.h), equal to the `tokenizers` library.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace crumb::text {

class TextTokenizer {
 public:
  /// Reads tokenizer.json in the folder `path` ("" for the top), and of tokenizer_config.json beside it add_bos_token and
  /// add_eos_token, which replace what the file puts around a text, as `transformers` has it. Truncation and padding are
  /// the caller's. Throws Error that names the file, the place and what is not supported.
  static TextTokenizer load(const ReadFile& read, const std::string& path = "");

  /// Ill-formed UTF-8 counts as U+FFFD. Special tokens in the text are tokens. Throws Error where a regular expression of
  /// the file passes its limits. Thread-safe.
  std::vector<TokenId> encode(std::string_view text, bool add_special = true) const;

  /// Null where there is no such token.
  const std::string* piece(TokenId id) const;
  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  TokenId largest_id() const;

 private:
  struct Parts;
  TextTokenizer() = default;
  std::shared_ptr<const Parts> parts_;
};

}  // namespace crumb::text
