// Unigram: of all ways to cover a text with tokens, the one with the greatest sum of scores. A character that
// no token covers alone is unknown, with the least score minus 10; unknown ones in a row are one token, or
// the tokens of their bytes. Sums are in double precision, as in `tokenizers`.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/subword/token_table.h"

namespace crumb::text {

class Unigram {
 public:
  struct Options {
    std::optional<std::size_t> unknown;  ///< an index into the vocabulary
    bool byte_fallback = false;
    bool single_precision =
        /// Whether sums of scores are rounded as SentencePiece rounds them, which decides between equal ones.
        false;
  };
  /// Tokens and scores; the index is the id. A token whose score is minus infinity is never found in a text.
  static Result<Unigram> make(const std::vector<std::pair<std::string, double>>& vocabulary, Options options);

  /// Appends the ids of a text. Throws Error where a character is unknown and no token stands for it.
  void encode(std::string_view text, std::vector<TokenId>& ids) const;

  const TokenTable& tokens() const { return tokens_; }

 private:
  void add(std::string_view part, std::vector<TokenId>& ids) const;

  TokenTable tokens_;
  Options options_;
  struct Entry {
    std::string token;
    TokenId id;
    double score;
  };
  std::vector<Entry> sorted_;                  // by token
  std::array<std::size_t, 257> first_byte_{};  // where tokens of a first byte begin
  double unknown_score_ = 0;
};

}  // namespace crumb::text
