#include "text/pipeline/chars_map.h"

#include <utf8proc.h>

#include <cstring>

#include "base/files/text.h"
#include "base/utf8.h"

namespace crumb::text {
namespace {

constexpr std::size_t kUnitBytes = 4;

std::size_t offset_of_unit(std::uint32_t unit) {
  return static_cast<std::size_t>(unit >> 10) << ((unit & 0x200) >> 6);
}
bool has_leaf(std::uint32_t unit) { return (unit & 0x100) != 0; }
std::uint32_t value_of_unit(std::uint32_t unit) { return unit & 0x7FFFFFFF; }
std::uint32_t label_of_unit(std::uint32_t unit) { return unit & 0x800000FF; }

std::uint32_t little_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < kUnitBytes; ++i)
    value |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return value;
}

}  // namespace

Result<CharsMap> CharsMap::parse(std::string_view bytes) {
  CharsMap made;
  if (bytes.empty()) return made;
  if (bytes.size() < kUnitBytes) return Failure{"a table of characters of " + byte_text(bytes.size())};
  const std::size_t size = little_endian(bytes);
  if (size > bytes.size() - kUnitBytes || size % kUnitBytes != 0)
    return Failure{"the trie of a table of characters takes " + byte_text(size) + " of " +
                   byte_text(bytes.size())};
  for (std::size_t at = 0; at < size; at += kUnitBytes)
    made.units_.push_back(little_endian(bytes.substr(kUnitBytes + at, kUnitBytes)));
  made.texts_ = bytes.substr(kUnitBytes + size);
  if (!is_utf8(made.texts_)) return Failure{"a table of characters has texts that are no UTF-8"};
  return made;
}

std::optional<std::pair<std::size_t, std::string_view>> CharsMap::find(std::string_view text,
                                                                       bool longest) const {
  std::optional<std::pair<std::size_t, std::string_view>> found;
  if (units_.empty()) return found;
  std::size_t at = offset_of_unit(units_[0]);
  for (std::size_t i = 0; i < text.size() && (longest || !found); ++i) {
    at ^= static_cast<unsigned char>(text[i]);
    if (at >= units_.size() || label_of_unit(units_[at]) != static_cast<unsigned char>(text[i])) break;
    const std::uint32_t unit = units_[at];
    at ^= offset_of_unit(unit);
    if (!has_leaf(unit) || at >= units_.size()) continue;
    const std::size_t begin = value_of_unit(units_[at]);
    if (begin >= texts_.size() || (static_cast<unsigned char>(texts_[begin]) & 0xC0) == 0x80) continue;
    const std::string_view rest = std::string_view(texts_).substr(begin);
    found = {i + 1, rest.substr(0, rest.find('\0'))};
  }
  return found;
}

std::string CharsMap::by_graphemes(std::string_view text) const {
  constexpr std::size_t kLongestGrapheme = 5;
  std::string out;
  while (!text.empty()) {
    utf8proc_int32_t state = 0;
    Utf8Character last = first_character(text);
    std::size_t size = last.length;
    while (size < text.size()) {
      const Utf8Character next = first_character(text.substr(size));
      if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last.code),
                                           static_cast<utf8proc_int32_t>(next.code), &state))
        break;
      size += next.length;
      last = next;
    }
    std::string_view grapheme = text.substr(0, size);
    text.remove_prefix(size);
    if (const auto whole = size <= kLongestGrapheme ? shortest(grapheme) : std::nullopt) {
      out += whole->second;
      continue;
    }
    while (!grapheme.empty()) {
      const std::string_view character = grapheme.substr(0, first_character(grapheme).length);
      const auto made = shortest(character);
      out += made ? made->second : character;
      grapheme.remove_prefix(character.size());
    }
  }
  return out;
}

std::optional<std::string> from_base64(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.size() % 4 != 0) return std::nullopt;
  while (text.ends_with('=') && text.size() % 4 != 2) text.remove_suffix(1);
  std::string out;
  std::uint32_t held = 0;
  unsigned bits = 0;
  for (const char c : text) {
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    held = held << 6 | static_cast<std::uint32_t>(digit);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    out += static_cast<char>(held >> bits & 0xFF);
  }
  return out;
}

}  // namespace crumb::text
