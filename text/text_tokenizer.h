// Tokenizers that a Hugging Face tokenizer.json describes (BPE, Unigram and WordPiece; pipeline/steps.h and
// pipeline/decoders.h say which steps are supported), equal to the `tokenizers` library; byte-level BPE of
// vocab.json and merges.txt, equal to transformers; and SentencePiece models, equal to SentencePiece except
// for special tokens, which are tokens wherever they occur in a text.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/pair_frame.h"
#include "text/tokenizer.h"

namespace crumb::text {

class TokenSink;

class TextTokenizer {
 public:
  /// Reads tokenizer.json in the folder `path` ("" for the top), and the tokens of declared_tokens.h. The
  /// tokens around a text are those of tokenizer.json, except for add_bos_token and add_eos_token of
  /// tokenizer_config.json where its tokenizer_class follows them, or where it has none (docs/text.md). Where
  /// there is no tokenizer.json: vocab.json with merges.txt (vocab_and_merges.h), else a SentencePiece model
  /// (tokenizer.model, spiece.model, sentencepiece.bpe.model, sentencepiece.model or spm.model), with the
  /// tokens of added_tokens.json and of added_tokens_decoder in tokenizer_config.json; its pieces are
  /// numbered anew, with <s> and </s> around a text, for XLM-RoBERTa and CamemBERT (sentencepiece/fairseq.h),
  /// and no tokens are around a text for others. Truncation and padding are up to the caller. Throws Error, which
  /// names the file, the key and what is not supported.
  static TextTokenizer load(const ReadFile& read, const std::string& path = "");

  /// Ill-formed UTF-8 counts as U+FFFD. Special tokens in the text are tokens. Throws Error where a regular
  /// expression of the file passes its limits, or where the text becomes longer than kLongestText
  /// (regex/pattern.h). Thread-safe.
  std::vector<TokenId> encode(std::string_view text, bool add_special = true) const;

  /// The same with the text's own tokens cut at their end, so that there are `most` at most. Precondition:
  /// most is tokens_around() or more.
  std::vector<TokenId> encode_within(std::string_view text, std::size_t most) const;

  /// Two texts as one row of `most` tokens at most, by the template of pairs: that of tokenizer.json; of the
  /// other files, where RoBERTa's class says it, cls, first, sep, sep, second, sep; else what encode() puts
  /// around a text, around each of them. Throws Error as encode() does, and where the template is not
  /// supported. Precondition: most is tokens_around_pairs() or more.
  PairTokens encode_pair_within(std::string_view first, std::string_view second, std::size_t most) const;

  /// How many tokens encode_pair_within() puts around every pair. Throws Error where the template of pairs is
  /// not supported.
  std::size_t tokens_around_pairs() const;

  /// How many tokens encode() puts around every text.
  std::size_t tokens_around() const;

  /// The token that encode() puts before every text, if it does.
  std::optional<TokenId> first_token() const;

  /// The text of some ids; StreamDecoder returns the same text in parts. Ids without a token give no text,
  /// nor do special tokens where they are skipped. Throws Error as encode() does. Thread-safe.
  std::string decode(std::span<const TokenId> ids, bool skip_special = true) const;

  /// Whether the id is one of the file's special tokens.
  bool is_special(TokenId id) const;

  /// Null where there is no such token.
  const std::string* piece(TokenId id) const;
  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  TokenId largest_id() const;
  /// The largest id of the vocabulary, without added tokens.
  TokenId largest_own_id() const;

  /// From now on encode() throws Error, which names the token, where an id is `end` or more: a network has no
  /// row for it.
  void expect_ids_below(std::size_t end) { end_ = end; }

 private:
  friend class StreamDecoder;
  struct Parts;
  TextTokenizer() = default;
  static std::shared_ptr<Parts> parts_of_json(const ReadFile& read, const std::string& folder,
                                              const std::string& text, std::vector<AddedToken>& tokens);
  static std::shared_ptr<Parts> parts_of_vocab(const ReadFile& read, const std::string& folder,
                                               std::vector<AddedToken>& tokens);
  static std::shared_ptr<Parts> parts_of_sentencepiece(const ReadFile& read, const std::string& folder,
                                                       const std::string& file, const std::string& bytes,
                                                       std::vector<AddedToken>& tokens);
  std::unique_ptr<TokenSink> decoder(std::unique_ptr<TokenSink> last) const;
  /// `most`: of the text's own tokens.
  std::vector<TokenId> encode(std::string_view text, bool add_special, std::optional<std::size_t> most) const;
  void check_ids(const std::vector<TokenId>& ids) const;
  const PairFrame& pair_frame() const;

  std::shared_ptr<const Parts> parts_;
  std::optional<std::size_t> end_;
};

/// Whether the folder `path` has files that TextTokenizer::load reads.
bool has_text_tokenizer(const ReadFile& read, const std::string& path);

}  // namespace crumb::text
