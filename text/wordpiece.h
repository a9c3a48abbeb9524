// WordPiece: a word becomes the longest vocabulary entry that it begins with, then the longest entries (with
// the continuing prefix, "##") that continue it. A word that cannot be covered, or that is too long, is
// [UNK].
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"

namespace crumb::text {

using TokenId = int32_t;

/// Tokens and their ids. Ids need not be dense; two tokens may share one.
class Vocabulary {
 public:
  /// vocab.txt: UTF-8, one token a line, its id the line's index from 0; lines end with `\n`, `\r\n` or `\r`.
  /// When a token stands on two lines the later one wins, as in `transformers`.
  static Result<Vocabulary> parse_text(std::string_view text);

  void add(std::string token, TokenId id) {
    longest_ = std::max(longest_, token.size());
    ids_.insert_or_assign(std::move(token), id);
  }
  std::optional<TokenId> find(std::string_view token) const;
  size_t size() const { return ids_.size(); }
  /// Bytes of the longest token.
  size_t longest() const { return longest_; }
  /// Zero for an empty vocabulary.
  TokenId largest_id() const;

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
  };
  std::unordered_map<std::string, TokenId, Hash, std::equal_to<>> ids_;
  size_t longest_ = 0;
};

class WordPiece {
 public:
  struct Options {
    std::string unknown_token = "[UNK]";
    std::string continuing_prefix = "##";
    size_t max_chars_per_word = 100;
  };

  /// Precondition: options.unknown_token is in the vocabulary.
  WordPiece(Vocabulary vocabulary, Options options);

  /// Appends the ids of one word, which has no white space in it.
  void encode(std::u32string_view word, std::vector<TokenId>& ids) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  TokenId unknown() const { return unknown_; }

 private:
  Vocabulary vocabulary_;
  Options options_;
  TokenId unknown_;
};

}  // namespace crumb::text
