// SentencePiece's table of characters (precompiled_charsmap): what sequences of bytes become.
//
// The bytes are the size of a trie (four bytes, little-endian), the trie, and the texts that it leads to, each with a zero
// behind it. The trie is a double array of units of four bytes (darts-clone): from a unit's place, its offset and the next
// byte of the key, exclusive-or, give the next unit's place; that unit's label must be the byte. A unit with the leaf bit
// has a value, where a text begins, at its place xor its offset.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace crumb::text {

class CharsMap {
 public:
  /// A Failure where the bytes are no such table. An empty table changes nothing.
  static Result<CharsMap> parse(std::string_view bytes);

  /// Of the sequences that the text begins with, the longest (or the shortest): its bytes, and what it becomes.
  std::optional<std::pair<std::size_t, std::string_view>> longest(std::string_view text) const {
    return find(text, true);
  }
  std::optional<std::pair<std::size_t, std::string_view>> shortest(std::string_view text) const {
    return find(text, false);
  }

  /// As `tokenizers` applies it (its normalizer Precompiled): to whole grapheme clusters of less than six bytes, by the
  /// shortest sequence that one begins with, else to each character. Precondition: the text is UTF-8.
  std::string by_graphemes(std::string_view text) const;

 private:
  std::optional<std::pair<std::size_t, std::string_view>> find(std::string_view text, bool longest) const;

  std::vector<std::uint32_t> units_;
  std::string texts_;
};

/// The bytes that base64 stands for; nothing where it is none.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace crumb::text
