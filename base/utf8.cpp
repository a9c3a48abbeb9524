#include "base/utf8.h"

namespace crumb {

Utf8Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {.code = lead, .length = 1, .sound = true};
  const std::size_t total = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4) return {};
  // Only the second byte has special bounds: they exclude overlong forms, surrogates and characters past
  // U+10FFFF.
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  char32_t code = lead & (0xFFu >> (total + 1));
  for (std::size_t i = 1; i < total; ++i) {
    const bool fits =
        i < text.size() && byte(i) >= (i == 1 ? low : 0x80) && byte(i) <= (i == 1 ? high : 0xBF);
    if (!fits) return {.length = i};
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  return {.code = code, .length = total, .sound = true};
}

}  // namespace crumb
