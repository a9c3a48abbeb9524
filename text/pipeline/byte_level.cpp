#include "text/pipeline/byte_level.h"

#include <array>

#include "base/utf8.h"
#include "text/unicode.h"

namespace crumb::text {
namespace {

struct ByteCharacters {
  std::array<std::string, 256> of_byte;
  std::array<int, 512> byte_of{};
  ByteCharacters() {
    byte_of.fill(-1);
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool shown = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
      const char32_t character = shown ? byte : next++;
      unicode::append_utf8(character, of_byte[byte]);
      byte_of[character] = static_cast<int>(byte);
    }
  }
};

const ByteCharacters& byte_characters() {
  static const ByteCharacters kCharacters;
  return kCharacters;
}

}  // namespace

std::string bytes_to_characters(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) out += byte_characters().of_byte[static_cast<unsigned char>(c)];
  return out;
}

std::string characters_to_bytes(std::string_view token) {
  std::string out;
  for (std::string_view rest = token; !rest.empty();) {
    const Utf8Character first = first_character(rest);
    if (first.code >= 512 || byte_characters().byte_of[first.code] < 0) return std::string(token);
    out += static_cast<char>(byte_characters().byte_of[first.code]);
    rest.remove_prefix(first.length);
  }
  return out;
}

}  // namespace crumb::text
