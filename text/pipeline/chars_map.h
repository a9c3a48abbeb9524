// SentencePiece's table of characters (precompiled_charsmap): which sequences of bytes become which texts.
//
// The bytes are the size of a trie (four bytes, little-endian), the trie, and its texts, each ended by a zero
// byte. The trie is a double array of units of four bytes (darts-clone): the exclusive-or of a unit's index,
// its offset and the next byte of the key is the index of the next unit, whose label must be the byte. A unit
// with the leaf bit has a value, the offset of a text, at the exclusive-or of its index and its offset.
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

  /// The longest (or the shortest) sequence that the text begins with: its bytes, and what it becomes.
  std::optional<std::pair<std::size_t, std::string_view>> longest(std::string_view text) const {
    return find(text, true);
  }
  std::optional<std::pair<std::size_t, std::string_view>> shortest(std::string_view text) const {
    return find(text, false);
  }

  /// Applies the table as `tokenizers` does (its normalizer Precompiled): to whole grapheme clusters of fewer
  /// than six bytes, by the shortest sequence that a cluster begins with, else to each character.
  /// Precondition: the text is UTF-8.
  std::string by_graphemes(std::string_view text) const;

 private:
  std::optional<std::pair<std::size_t, std::string_view>> find(std::string_view text, bool longest) const;

  std::vector<std::uint32_t> units_;
  std::string texts_;
};

/// The decoded bytes; nothing where the text is no base64.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace crumb::text
