// Tokenizers as a Hugging Face tokenizer.json describes them (BPE, Unigram and WordPiece; what is read of the steps around
// them is in pipeline/steps.h and pipeline/decoders.h), equal to the `tokenizers` library; and as a SentencePiece model
// does, equal to SentencePiece but for special tokens, which are tokens wherever they stand in a text.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace crumb::text {

class TokenSink;

class TextTokenizer {
 public:
  /// Reads tokenizer.json in the folder `path` ("" for the top), and beside it the tokens of declared_tokens.h. What it puts
  /// around a text stands, but for add_bos_token and add_eos_token of tokenizer_config.json where its tokenizer_class is one
  /// that follows them, or none (docs/text.md). Where there is no
  /// tokenizer.json: a SentencePiece model (tokenizer.model, spiece.model, sentencepiece.bpe.model, sentencepiece.model or
  /// spm.model), with the tokens of added_tokens.json and of added_tokens_decoder in tokenizer_config.json; it puts nothing
  /// around a text by itself. Truncation and padding are the caller's. Throws Error that names the file, the place and what
  /// is not supported.
  static TextTokenizer load(const ReadFile& read, const std::string& path = "");

  /// Ill-formed UTF-8 counts as U+FFFD. Special tokens in the text are tokens. Throws Error where a regular expression of
  /// the file passes its limits, or where the text becomes longer than kLongestText (regex/pattern.h). Thread-safe.
  std::vector<TokenId> encode(std::string_view text, bool add_special = true) const;

  /// What encode() puts in front of every text, where it does.
  std::optional<TokenId> first_token() const;

  /// The text of some ids, whose parts are what StreamDecoder gives one by one. Ids without a token stand for nothing, as
  /// special tokens do where they are skipped. Throws Error as encode() does. Thread-safe.
  std::string decode(std::span<const TokenId> ids, bool skip_special = true) const;

  /// Whether it is one of the file's special tokens.
  bool is_special(TokenId id) const;

  /// Null where there is no such token.
  const std::string* piece(TokenId id) const;
  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  TokenId largest_id() const;
  /// Of the vocabulary, without the tokens that were added to it.
  TokenId largest_own_id() const;

  /// From now on a text with a token of `end` or more, of which a network has no row, is an Error of encode() that names it.
  void expect_ids_below(std::size_t end) { end_ = end; }

 private:
  friend class StreamDecoder;
  struct Parts;
  TextTokenizer() = default;
  static std::shared_ptr<Parts> parts_of_json(const ReadFile& read, const std::string& folder,
                                              const std::string& text, std::vector<AddedToken>& tokens);
  static std::shared_ptr<Parts> parts_of_sentencepiece(const ReadFile& read, const std::string& folder,
                                                       const std::string& file, const std::string& bytes,
                                                       std::vector<AddedToken>& tokens);
  std::unique_ptr<TokenSink> decoder(std::unique_ptr<TokenSink> last) const;

  std::shared_ptr<const Parts> parts_;
  std::optional<std::size_t> end_;
};

}  // namespace crumb::text
