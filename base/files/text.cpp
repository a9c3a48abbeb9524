#include "base/files/text.h"

#include "base/utf8.h"

namespace crumb {

std::size_t utf8_character(std::string_view text) {
  if (text.empty()) return 0;
  const Utf8Character first = first_character(text);
  return first.sound ? first.length : 0;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_character(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

namespace {

/// Removes the next character from the text and returns it in a form that is safe for a terminal: control
/// characters, bytes that are not UTF-8, and the characters in `also` become \xNN.
std::string next_printable(std::string_view& text, std::string_view also) {
  constexpr char kHex[] = "0123456789abcdef";
  const std::size_t length = utf8_character(text);
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const bool c1 = length == 2 && byte(0) == 0xc2 && byte(1) < 0xa0;  // U+0080 to U+009F
  const bool control = length == 1 && (byte(0) < 0x20 || byte(0) == 0x7f);
  std::string out;
  if (length == 0 || control || c1 || also.find(text.front()) != std::string_view::npos) {
    const std::size_t count = std::max<std::size_t>(length, 1);
    for (std::size_t i = 0; i < count; ++i) out += {'\\', 'x', kHex[byte(i) >> 4], kHex[byte(i) & 15u]};
    text.remove_prefix(count);
  } else {
    out = text.substr(0, length);
    text.remove_prefix(length);
  }
  return out;
}

std::string printable(std::string_view text, std::string_view also) {
  std::string out;
  while (!text.empty()) out += next_printable(text, also);
  return out;
}

constexpr std::string_view kQuoted = "'\\";

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0u) == 0x80; }

}  // namespace

std::string printable(std::string_view text) { return printable(text, ""); }

std::string quote_text(std::string_view text) {
  constexpr std::size_t kLongest = 120,
                        kEnd = 60;  // bytes: of a text that is shown whole, of either end of a longer one
  if (text.size() <= kLongest) return "'" + printable(text, kQuoted) + "'";
  std::string out = "'";
  std::string_view rest = text;
  while (text.size() - rest.size() < kEnd) out += next_printable(rest, kQuoted);
  rest = text.substr(text.size() - kEnd);
  while (is_continuation(rest.front()) && kEnd - rest.size() < 3)
    rest.remove_prefix(1);  // bytes of a cut character
  return out + "..." + printable(rest, kQuoted) + "'";
}

}  // namespace crumb
