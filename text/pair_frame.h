// How the tokens of two texts make one row, as a tokenizer's template of pairs says:
// [CLS] first [SEP] second [SEP].
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "text/wordpiece.h"

namespace crumb::text {

/// A row of tokens with the type of each, which says to which text it belongs: 0 or 1 in every template that
/// is known.
struct PairTokens {
  std::vector<TokenId> ids;
  std::vector<std::int64_t> types;  ///< as many as ids
};

class PairFrame {
 public:
  struct Part {
    enum class Of : std::uint8_t { kToken, kFirst, kSecond };
    Of of = Of::kToken;
    TokenId id = 0;  ///< of a kToken
    std::int64_t type = 0;
  };

  /// The first text's tokens and then the second's, of the types 0 and 1, with nothing around them.
  PairFrame() = default;
  /// Precondition: each text is there once.
  explicit PairFrame(std::vector<Part> parts) : parts_(std::move(parts)) {}
  /// The same tokens around each of the two texts, of its type.
  static PairFrame around_each(const std::vector<TokenId>& before, const std::vector<TokenId>& after);
  /// cls, the first text, `separators` times sep, the second text, sep; all behind the first sep is of
  /// `second_type`.
  static PairFrame of_bert(TokenId cls, TokenId sep, std::size_t separators, std::int64_t second_type);

  /// How many tokens stand around every pair.
  std::size_t tokens_around() const { return parts_.size() - 2; }

  /// Puts the two texts' own tokens into the frame, `most` tokens at most: the longer text loses its last
  /// ones until the row fits or both are as long, and then both do (transformers' "longest_first").
  /// Precondition: most is tokens_around() or more.
  PairTokens join(std::vector<TokenId> first, std::vector<TokenId> second, std::size_t most) const;

 private:
  std::vector<Part> parts_ = {{.of = Part::Of::kFirst}, {.of = Part::Of::kSecond, .type = 1}};
};

}  // namespace crumb::text
