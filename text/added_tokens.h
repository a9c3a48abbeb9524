// Tokens that are found in the text itself, before it is split into words: [CLS], [MASK] and others that a
// tokenizer's files declare. The rules are those of the Hugging Face `tokenizers` library:
//
//   - at each position the longest matching token wins; matches do not overlap and go from left to right
//   - single_word: a match that touches a word character (\w) is not a token
//   - lstrip, rstrip: the match takes the white space before or after it along
//   - normalized: matched against the normalised text (with the token's text normalised too), else against
//   the
//     text as it came
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/wordpiece.h"

namespace crumb::text {

struct AddedToken {
  std::u32string content;
  TokenId id = 0;
  bool single_word = false;
  bool lstrip = false;
  bool rstrip = false;
  bool normalized = false;
};

/// Tokens in a structure for searching, whose time hardly grows with their number.
class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);

  /// The longest token that the text begins with; of equal ones the first. Null where there is none. Empty
  /// tokens are never found.
  const AddedToken* longest_at(std::u32string_view text) const;

 private:
  std::vector<AddedToken> sorted_;
};

/// A stretch of text, or a token that was found there.
struct TextPiece {
  std::u32string_view text;
  std::optional<TokenId> token;
};

/// Pieces cover the text from left to right, except for white space that tokens took. Pieces of text are not
/// empty.
std::vector<TextPiece> split_added_tokens(std::u32string_view text, const AddedTokens& tokens);

}  // namespace crumb::text
