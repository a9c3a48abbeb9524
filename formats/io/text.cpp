#include "formats/io/text.h"

namespace crumb {

std::size_t utf8_character(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0u) != 0x80u) return 0;
  const unsigned second = byte(1);
  if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f)) return 0;
  if ((lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f)) return 0;
  return length;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_character(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string quote_text(std::string_view text) {
  constexpr std::size_t kLongest = 120;
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "'";
  while (!text.empty()) {
    if (out.size() > kLongest) return out + "...'";
    const std::size_t length = utf8_character(text);
    const auto lead = static_cast<unsigned char>(text.front());
    if (length == 0 || lead < 0x20 || lead == 0x7f || lead == '\'' || lead == '\\') {
      out += {'\\', 'x', kHex[lead >> 4], kHex[lead & 15u]};
      text.remove_prefix(1);
    } else {
      out += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return out + "'";
}

}  // namespace crumb
