// Byte pair encoding: splits a piece of text into characters and merges neighbours, those of the lowest rank
// first and from the left, until no merge is left.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "text/subword/token_table.h"

namespace crumb::text {

class Bpe {
 public:
  struct Options {
    std::optional<std::string> unknown;
    std::string continuing_prefix;  ///< before every character but a piece's first
    std::string end_suffix;         ///< behind a piece's last character
    bool fuse_unknown = false;      ///< unknown characters in a row are one token
    bool byte_fallback = false;     ///< unknown characters are the tokens of their bytes, <0x0A>
    bool ignore_merges = false;     ///< a piece that is a token is that token
  };

  /// `merges`: pairs in the order of their ranks. A Failure where a part, or what two parts merge to, is no
  /// token.
  static Result<Bpe> make(TokenTable tokens, const std::vector<std::pair<std::string, std::string>>& merges,
                          Options options);

  /// Appends the ids of a piece, in O(n log n). An unknown character without a token for it is left out.
  void encode(std::string_view piece, std::vector<TokenId>& ids) const;

  const TokenTable& tokens() const { return tokens_; }

 private:
  struct Merge {
    std::uint32_t rank = 0;
    TokenId id = 0;
  };
  Bpe(TokenTable tokens, Options options) : tokens_(std::move(tokens)), options_(std::move(options)) {}
  const Merge* find_merge(TokenId left, TokenId right) const;
  std::vector<TokenId> characters(std::string_view piece) const;
  void merge(std::vector<TokenId> symbols, std::vector<TokenId>& ids) const;

  TokenTable tokens_;
  Options options_;
  std::optional<TokenId> unknown_;
  std::unordered_map<std::uint64_t, Merge> merges_;
};

}  // namespace crumb::text
