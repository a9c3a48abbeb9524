// Formats outside strings and numbers for messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace crumb {

/// Returns 'text', fit for one line of a message: control characters, quotes and bytes that are not UTF-8
/// become `\xNN` escapes. From more than about 120 bytes the middle is left out: a path tells at its end
/// which file it is, a name often at its beginning.
std::string quote_text(std::string_view text);

/// Returns the text in a form that is safe for a terminal: control characters and bytes that are not UTF-8
/// become `\xNN` escapes.
std::string printable(std::string_view text);

/// Returns "1 byte", "1234 bytes".
inline std::string byte_text(std::uint64_t bytes) {
  return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
}

/// Whether text is well-formed UTF-8 (no overlong forms, no surrogates, nothing above U+10FFFF).
bool is_utf8(std::string_view text);

/// Returns the number of bytes, 1 to 4, of the well-formed UTF-8 character that text begins with; 0 where it
/// begins with none.
std::size_t utf8_character(std::string_view text);

}  // namespace crumb
