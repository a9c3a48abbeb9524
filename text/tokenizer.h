// Text to token ids by the files of a checkpoint with BERT's tokenizer (BERT, MPNet): special tokens in the
// text, normalisation, words, WordPiece, [CLS] and [SEP] around them, truncation.
//
// Equal to the Hugging Face fast tokenizer (tokenizers 0.23), which sentence-transformers runs, except for
// the lower case of 55 letters that Unicode got after version 15.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/normalizer.h"
#include "text/pair_frame.h"
#include "text/wordpiece.h"

namespace crumb::text {

/// The text of a file of the checkpoint by its relative path, or nothing if there is no such file.
using ReadFile = std::function<std::optional<std::string>(std::string_view)>;

class Tokenizer {
 public:
  /// Reads, of the files that are there (all in the folder `path`, "" for the top):
  ///   tokenizer.json           vocabulary (a WordPiece model), added tokens, normaliser
  ///   vocab.txt                the vocabulary, when tokenizer.json has none
  ///   tokenizer_config.json    do_lower_case, strip_accents, tokenize_chinese_chars, which take precedence
  ///                            over tokenizer.json; names of the special tokens; model_max_length
  ///   special_tokens_map.json  names of the special tokens, when tokenizer_config.json has none
  ///   sentence_bert_config.json  max_seq_length; do_lower_case
  /// strip_accents follows lower case where it is null. Throws crumb::Error that names the file and what is
  /// wrong.
  static Tokenizer load(const ReadFile& read, const std::string& path = "");

  /// The ids of one text, [CLS] first and [SEP] last, at most max_length() of them: a longer text is cut at
  /// its end. Ill-formed UTF-8 counts as U+FFFD, which BERT's normaliser drops.
  std::vector<TokenId> encode(std::string_view text) const;

  /// Two texts as one row, at most max_length() tokens: in the template of pairs of tokenizer.json, else
  /// [CLS] first [SEP] second [SEP], as BERT has it, or with two [SEP] between them, as MPNet does. Throws
  /// Error where the template is not supported, and where it leaves no room for a text's token.
  PairTokens encode_pair(std::string_view first, std::string_view second) const;

  /// The most tokens that the files allow; nothing where they set no limit.
  std::optional<size_t> max_length() const { return max_length_; }
  /// Lowers the limit (never raises it). Precondition: length >= 2.
  void limit_length(size_t length);

  const Vocabulary& vocabulary() const { return wordpiece_.vocabulary(); }
  /// The largest id that encode() can yield.
  TokenId largest_id() const { return largest_id_; }

 private:
  /// Adds the text's own tokens until there are `room` ids or more.
  void encode_own(std::string_view text, size_t room, std::vector<TokenId>& ids) const;

  explicit Tokenizer(WordPiece wordpiece) : wordpiece_(std::move(wordpiece)) {}

  WordPiece wordpiece_;
  NormalizerOptions normalizer_;
  AddedTokens raw_tokens_;         // matched against the text as it came
  AddedTokens normalized_tokens_;  // content already normalised
  TokenId cls_ = 0;
  TokenId sep_ = 0;
  std::optional<PairFrame> pairs_;
  std::string why_no_pairs_;
  TokenId largest_id_ = 0;
  std::optional<size_t> max_length_;
};

}  // namespace crumb::text
