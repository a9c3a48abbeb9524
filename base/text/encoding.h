// Tells what a text is that is not UTF-8.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace crumb {

struct ForeignText {
  std::uint64_t bytes = 0;  ///< number of bytes that are not UTF-8; 0 where the text is of wider units
  std::string looks_like;   ///< iconv's name: "WINDOWS-1252", "UTF-16LE"; empty: like no text
  bool wide = false;        ///< units of 16 or 32 bits: nothing of it can be read as UTF-8
};

/// Returns nothing where the text is UTF-8 and does not have a byte 0 at every other offset. Decides by byte
/// order marks, zero bytes and the bytes that are not UTF-8: 80 to 9F are letters of Windows-1252 alone,
/// higher ones of Latin-1 too.
std::optional<ForeignText> find_foreign_text(std::string_view text);

/// Returns "holds 3 bytes that are not UTF-8; it looks like WINDOWS-1252 (iconv -f WINDOWS-1252 -t UTF-8
/// makes UTF-8 of it)".
std::string foreign_text_message(const ForeignText& text);

}  // namespace crumb
