// What is wrong with a text that is not UTF-8.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace crumb {

struct ForeignText {
  std::uint64_t bytes = 0;  ///< that are not UTF-8; 0 where the text is of wider units
  std::string looks_like;   ///< as iconv calls it: "WINDOWS-1252", "UTF-16LE"; empty: like no text
  bool wide = false;        ///< of 16 or 32 bits a unit, so that nothing of it can be read as UTF-8
};

/// Nothing where the text is UTF-8 and holds no byte 0 in every other place. By marks of byte order, zero bytes and the bytes
/// that are not UTF-8: those from 80 to 9F are letters of Windows-1252 alone, those above of Latin-1 too.
std::optional<ForeignText> find_foreign_text(std::string_view text);

/// "holds 3 bytes that are not UTF-8; it looks like WINDOWS-1252 (iconv -f WINDOWS-1252 -t UTF-8 makes UTF-8 of it)".
std::string foreign_text_message(const ForeignText& text);

}  // namespace crumb
