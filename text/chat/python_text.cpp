#include "text/chat/python_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <initializer_list>

#include "base/utf8.h"
#include "text/chat/trouble.h"
#include "text/unicode.h"

namespace crumb::text::chat {
namespace {

using unicode::append_utf8;
using unicode::Case;

bool is_line_end(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_among(char32_t c, std::string_view characters) {
  while (!characters.empty()) {
    const Utf8Character one = first_character(characters);
    if (one.code == c) return true;
    characters.remove_prefix(one.length);
  }
  return false;
}

/// The last character's code and length. Precondition: the text is UTF-8 and not empty.
Utf8Character last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return first_character(text.substr(at));
}

/// The upper case of a letter whose upper case is several letters.
std::string_view long_upper_case(char32_t c) {
  constexpr std::array<std::string_view, 7> kLigatures = {"FF", "FI", "FL", "FFI", "FFL", "ST", "ST"};
  if (c == 0xDF) return "SS";
  if (c >= 0xFB00 && c <= 0xFB06) return kLigatures[c - 0xFB00];
  const auto ends_in = [c](std::initializer_list<char32_t> ends) {
    return std::ranges::find(ends, c % 16) != ends.end();
  };
  const bool greek = (c >= 0x1F50 && c <= 0x1F56 && c % 2 == 0) || (c >= 0x1F80 && c <= 0x1FAF) ||
                     (c >= 0x1FB0 && c <= 0x1FFC && c != 0x1FEC && ends_in({2, 3, 4, 6, 7, 12}));
  if (greek || c == 0x149 || c == 0x1F0 || c == 0x390 || c == 0x3B0 || c == 0x587 ||
      (c >= 0x1E96 && c <= 0x1E9A) || (c >= 0xFB13 && c <= 0xFB17)) {
    std::string letter;
    append_utf8(c, letter);
    throw Trouble("the upper case of '" + letter + "' is not supported");
  }
  return {};
}

void append_title(char32_t c, std::string& out) {
  const std::string_view made = long_upper_case(c);
  if (made.empty()) return append_utf8(unicode::to_title(c), out);
  out += made[0];
  for (const char letter : made.substr(1)) out += static_cast<char>(letter + ('a' - 'A'));
}

bool is_cased(char32_t c) { return unicode::letter_case(c) != Case::kNone; }

/// Whether a sigma at `at` is a word's last letter.
bool is_final(std::u32string_view text, std::size_t at) {
  std::size_t before = at;
  while (before > 0 && unicode::is_case_ignorable(text[before - 1])) --before;
  if (before == 0 || !is_cased(text[before - 1])) return false;
  std::size_t after = at + 1;
  while (after < text.size() && unicode::is_case_ignorable(text[after])) ++after;
  return after == text.size() || !is_cased(text[after]);
}

void append_lower(std::u32string_view text, std::size_t at, std::string& out) {
  if (text[at] == 0x3A3) return append_utf8(is_final(text, at) ? 0x3C2 : 0x3C3, out);
  out += unicode::encode(unicode::lowercase(text.substr(at, 1)));
}

bool all_cased_are(std::string_view text, Case expected) {
  bool any = false;
  for (const char32_t c : unicode::decode(text)) {
    const Case found = unicode::letter_case(c);
    if (found != Case::kNone && found != expected) return false;
    any |= found == expected;
  }
  return any;
}

}  // namespace

bool is_space(char32_t c) { return unicode::is_whitespace(c) || (c >= 0x1C && c <= 0x1F); }

std::string_view strip(std::string_view text, bool left, bool right, const std::string_view* characters) {
  const auto goes = [characters](char32_t c) {
    return characters == nullptr ? is_space(c) : is_among(c, *characters);
  };
  while (left && !text.empty()) {
    const Utf8Character c = first_character(text);
    if (!goes(c.code)) break;
    text.remove_prefix(c.length);
  }
  while (right && !text.empty()) {
    const Utf8Character c = last_character(text);
    if (!goes(c.code)) break;
    text.remove_suffix(c.length);
  }
  return text;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep) {
  std::vector<std::string_view> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Character c = first_character(text.substr(at));
    const std::size_t end = at;
    at += c.length;
    if (!is_line_end(c.code)) continue;
    if (c.code == '\r' && text.substr(at).starts_with('\n')) ++at;
    lines.push_back(text.substr(begin, (keep ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::size_t length_of(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

std::size_t offset_of(std::string_view text, std::size_t code_point) {
  std::size_t at = 0;
  while (at < text.size()) {
    if ((static_cast<unsigned char>(text[at]) & 0xC0) != 0x80 && code_point-- == 0) break;
    ++at;
  }
  return at;
}

std::string lower(std::string_view text) {
  const std::u32string characters = unicode::decode(text);
  std::string out;
  for (std::size_t i = 0; i < characters.size(); ++i) append_lower(characters, i, out);
  return out;
}

std::string upper(std::string_view text) {
  std::string out;
  for (const char32_t c : unicode::decode(text)) {
    const std::string_view made = long_upper_case(c);
    if (made.empty()) append_utf8(unicode::to_upper(c), out);
    out += made;
  }
  return out;
}

std::string capitalize(std::string_view text) {
  const std::u32string characters = unicode::decode(text);
  std::string out;
  for (std::size_t i = 0; i < characters.size(); ++i) {
    if (i == 0) {
      append_title(characters[0], out);
    } else {
      append_lower(characters, i, out);
    }
  }
  return out;
}

std::string title(std::string_view text) {
  const std::u32string characters = unicode::decode(text);
  std::string out;
  bool inside = false;
  for (std::size_t i = 0; i < characters.size(); ++i) {
    if (inside) {
      append_lower(characters, i, out);
    } else {
      append_title(characters[i], out);
    }
    inside = is_cased(characters[i]);
  }
  return out;
}

bool is_lower(std::string_view text) { return all_cased_are(text, Case::kLower); }
bool is_upper(std::string_view text) { return all_cased_are(text, Case::kUpper); }

std::string repr_text(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char mark = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, mark);
  const auto escape = [&out](char kind, char32_t code, int digits) {
    out += '\\';
    out += kind;
    for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4)
      out += "0123456789abcdef"[(code >> shift) & 15];
  };
  for (const char32_t c : unicode::decode(text)) {
    if (c == U'\\' || c == static_cast<unsigned char>(mark)) {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (unicode::is_printable(c)) {
      append_utf8(c, out);
    } else if (c < 0x100) {
      escape('x', c, 2);
    } else if (c < 0x10000) {
      escape('u', c, 4);
    } else {
      escape('U', c, 8);
    }
  }
  return out + mark;
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 40> buffer{};
  const auto [end, error] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific);
  const std::string_view made(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  const std::size_t e = made.find('e');
  int exponent = 0;
  const std::string_view digits_of_exponent = made.substr(made[e + 1] == '+' ? e + 2 : e + 1);
  std::from_chars(digits_of_exponent.data(), made.data() + made.size(), exponent);
  std::string digits;
  for (const char c : made.substr(0, e)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  std::string out = value < 0 || std::signbit(value) ? "-" : "";
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (count > 1) out += "." + digits.substr(1);
    const std::string size = std::to_string(std::abs(exponent));
    return out + (exponent < 0 ? "e-" : "e+") + (size.size() < 2 ? "0" : "") + size;
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1)
    return out + digits + std::string(static_cast<std::size_t>(exponent + 1 - count), '0') + ".0";
  return out + digits.substr(0, static_cast<std::size_t>(exponent) + 1) + "." +
         digits.substr(static_cast<std::size_t>(exponent) + 1);
}

}  // namespace crumb::text::chat
