// WordPiece (text/wordpiece.h) as a subword model like BPE and Unigram: on words in UTF-8, with tokens by id.
#pragma once

#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/subword/token_table.h"
#include "text/wordpiece.h"

namespace crumb::text {

class Words {
 public:
  /// A Failure where the unknown token is not in the vocabulary.
  static Result<Words> make(TokenTable tokens, WordPiece::Options options);

  /// Appends the ids of a word.
  void encode(std::string_view word, std::vector<TokenId>& ids) const;

  const TokenTable& tokens() const { return tokens_; }

 private:
  Words(TokenTable tokens, WordPiece pieces) : tokens_(std::move(tokens)), pieces_(std::move(pieces)) {}

  TokenTable tokens_;
  WordPiece pieces_;
};

}  // namespace crumb::text
