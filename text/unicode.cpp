#include "text/unicode.h"

#include <utf8proc.h>

#include <array>
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "base/utf8.h"
#include "text/unicode_later.h"

namespace crumb::text::unicode {
namespace {

/// The General_Category that `tokenizers` sees, which is Unicode 8.0's wherever the two disagree.
int category(char32_t c) {
  if (is_assigned_later(c)) return UTF8PROC_CATEGORY_CN;
  switch (c) {  // assigned in 8.0, and moved since
    case 0x166D:
    case 0x111C9: return UTF8PROC_CATEGORY_PO;
    case 0x1734: return UTF8PROC_CATEGORY_MN;
    default: return utf8proc_category(static_cast<utf8proc_int32_t>(c));
  }
}

bool between(char32_t c, char32_t low, char32_t high) { return low <= c && c <= high; }

}  // namespace

std::u32string decode(std::string_view utf8) {
  std::u32string out;
  out.reserve(utf8.size());
  while (!utf8.empty()) {
    const Utf8Character first = first_character(utf8);
    out.push_back(first.code);
    utf8.remove_prefix(first.length);
  }
  return out;
}

void append_utf8(char32_t c, std::string& out) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const auto count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes.data());
  out.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(count));
}

std::string encode(std::u32string_view text) {
  std::string out;
  for (const char32_t c : text) append_utf8(c, out);
  return out;
}

bool is_whitespace(char32_t c) {
  return between(c, 0x09, 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         between(c, 0x2000, 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_control(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CS: return true;
    default: return false;
  }
}

bool is_punctuation(char32_t c) {
  if (between(c, 33, 47) || between(c, 58, 64) || between(c, 91, 96) || between(c, 123, 126)) return true;
  return between(category(c), UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}

bool is_cjk(char32_t c) {
  return between(c, 0x4E00, 0x9FFF) || between(c, 0x3400, 0x4DBF) || between(c, 0x20000, 0x2A6DF) ||
         between(c, 0x2A700, 0x2B73F) || between(c, 0x2B740, 0x2B81F) || between(c, 0x2B920, 0x2CEAF) ||
         between(c, 0xF900, 0xFAFF) || between(c, 0x2F800, 0x2FA1F);
}

bool is_nonspacing_mark(char32_t c) { return category(c) == UTF8PROC_CATEGORY_MN; }

bool is_mark(char32_t c) {
  return between(utf8proc_category(static_cast<utf8proc_int32_t>(c)), UTF8PROC_CATEGORY_MN,
                 UTF8PROC_CATEGORY_ME);
}

bool is_numeric(char32_t c) {
  return between(utf8proc_category(static_cast<utf8proc_int32_t>(c)), UTF8PROC_CATEGORY_ND,
                 UTF8PROC_CATEGORY_NO);
}

namespace {

/// U+11938, and the two code points that it decomposes to since Unicode 13: the tables of `tokenizers` are
/// older and do not have them.
constexpr std::string_view kNewer = "\xF0\x91\xA4\xB8", kNewerParts = "\xF0\x91\xA4\xB5\xF0\x91\xA4\xB0";

std::string mapped(std::string_view text, int options) {
  utf8proc_uint8_t* made = nullptr;
  const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                 static_cast<utf8proc_ssize_t>(text.size()), &made,
                                 static_cast<utf8proc_option_t>(options));
  if (size < 0) throw Error(std::string("Unicode normal form: ") + utf8proc_errmsg(size));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(made, std::free);
  return std::string(reinterpret_cast<const char*>(made), static_cast<std::size_t>(size));
}

}  // namespace

std::string normal_form(std::string_view text, Form form) {
  int options = UTF8PROC_STABLE;
  options |= form == Form::kNfc || form == Form::kNfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == Form::kNfkc || form == Form::kNfkd) options |= UTF8PROC_COMPAT;
  std::string made;
  for (;;) {  // no mark is ordered across it: it is a starter
    const std::size_t end = text.find(kNewer);
    const std::size_t piece = made.size();
    made += mapped(text.substr(0, end), options);
    for (std::size_t at = made.find(kNewer, piece); at != std::string::npos; at = made.find(kNewer, at))
      made.replace(at, kNewer.size(), kNewerParts);
    if (end == std::string_view::npos) return made;
    made += kNewer;
    text.remove_prefix(end + kNewer.size());
  }
}

bool is_word(char32_t c) {
  const auto kind = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  const bool lettered_symbol = between(c, 0x24B6, 0x24E9) || between(c, 0x1F130, 0x1F149) ||
                               between(c, 0x1F150, 0x1F169) || between(c, 0x1F170, 0x1F189);
  return between(kind, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_ND) || kind == UTF8PROC_CATEGORY_NL ||
         kind == UTF8PROC_CATEGORY_PC || c == 0x200C || c == 0x200D || lettered_symbol;
}

std::u32string nfd(std::u32string_view text) { return decode(normal_form(encode(text), Form::kNfd)); }

char32_t to_upper(char32_t c) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}
char32_t to_title(char32_t c) {
  return static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
}

Case letter_case(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LL: return Case::kLower;
    case UTF8PROC_CATEGORY_LU: return Case::kUpper;
    case UTF8PROC_CATEGORY_LT: return Case::kTitle;
    default: break;
  }
  // The properties Other_Lowercase and Other_Uppercase.
  if (between(c, 0x2160, 0x216F) || between(c, 0x24B6, 0x24CF) || between(c, 0x1F130, 0x1F149) ||
      between(c, 0x1F150, 0x1F169) || between(c, 0x1F170, 0x1F189))
    return Case::kUpper;
  const bool lower = c == 0xAA || c == 0xBA || between(c, 0x2B0, 0x2B8) || between(c, 0x2C0, 0x2C1) ||
                     between(c, 0x2E0, 0x2E4) || c == 0x345 || c == 0x37A || between(c, 0x1D2C, 0x1D6A) ||
                     c == 0x1D78 || between(c, 0x1D9B, 0x1DBF) || c == 0x2071 || c == 0x207F ||
                     between(c, 0x2090, 0x209C) || between(c, 0x2170, 0x217F) || between(c, 0x24D0, 0x24E9) ||
                     between(c, 0x2C7C, 0x2C7D) || between(c, 0xA69C, 0xA69D) || c == 0xA770 ||
                     between(c, 0xA7F8, 0xA7F9) || between(c, 0xAB5C, 0xAB5F) || c == 0x10780 ||
                     between(c, 0x10783, 0x10785) || between(c, 0x10787, 0x107B0) ||
                     between(c, 0x107B2, 0x107BA);
  return lower ? Case::kLower : Case::kNone;
}

bool is_case_ignorable(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK: return true;
    default: break;
  }
  switch (c) {  // what joins the letters of a word (Word_Break MidLetter, MidNumLet and Single_Quote)
    case '\'':
    case '.':
    case ':':
    case 0xB7:
    case 0x387:
    case 0x55F:
    case 0x5F4:
    case 0x2018:
    case 0x2019:
    case 0x2024:
    case 0x2027:
    case 0xFE13:
    case 0xFE52:
    case 0xFE55:
    case 0xFF07:
    case 0xFF0E:
    case 0xFF1A: return true;
    default: return false;
  }
}

bool is_printable(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    case UTF8PROC_CATEGORY_ZS: return c == ' ';
    default: return true;
  }
}

std::u32string lowercase(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (const char32_t c : text) {
    if (c == 0x130) {  // the one code point whose lower case is two, in any language
      out += U"i\u0307";
    } else {
      out.push_back(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
    }
  }
  return out;
}

}  // namespace crumb::text::unicode
