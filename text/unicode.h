// What tokenizers need of Unicode, for code points. The tables are libutf8proc's. Where the Hugging Face
// `tokenizers` library follows another version of Unicode, unicode.cpp has a visible exception.
#pragma once

#include <string>
#include <string_view>

namespace crumb::text::unicode {

constexpr char32_t kReplacement = 0xFFFD;

/// UTF-8 to code points. Ill-formed bytes become U+FFFD, one for each maximal subpart (Unicode 3.9, table
/// 3-8), as Python's bytes.decode("utf-8", "replace") does; surrogates and overlong forms are ill-formed.
std::u32string decode(std::string_view utf8);

void append_utf8(char32_t c, std::string& out);
std::string encode(std::u32string_view text);

/// The property White_Space.
bool is_whitespace(char32_t c);
/// Categories Cc, Cf, Co, Cs, but not tab, line feed and carriage return.
bool is_control(char32_t c);
/// ASCII punctuation (symbols such as $ and + included) or any category P*.
bool is_punctuation(char32_t c);
/// The blocks that BERT takes for Chinese (not kana, not hangul).
bool is_cjk(char32_t c);
/// Category Mn.
bool is_nonspacing_mark(char32_t c);
/// Categories M* and N*.
bool is_mark(char32_t c);
bool is_numeric(char32_t c);
/// What `\w` matches: what is Alphabetic, marks, decimal and letter numbers, connectors, joiners.
bool is_word(char32_t c);

enum class Form { kNfc, kNfd, kNfkc, kNfkd };
/// Precondition: the text is UTF-8.
std::string normal_form(std::string_view text, Form form);

/// normal_form() for code points, none of them a surrogate: canonical decomposition, marks in canonical
/// order.
std::u32string nfd(std::u32string_view text);

/// The upper case of a letter where that is one letter.
char32_t to_upper(char32_t c);
char32_t to_title(char32_t c);

enum class Case { kNone, kLower, kUpper, kTitle };
Case letter_case(char32_t c);
/// Characters between the letters of a word that the rule of the final sigma skips (the property
/// Case_Ignorable).
bool is_case_ignorable(char32_t c);
/// Whether Python's repr() writes the character as it is.
bool is_printable(char32_t c);

/// Each code point's full lower-case mapping, without regard to its neighbours (so no final sigma).
std::u32string lowercase(std::u32string_view text);

}  // namespace crumb::text::unicode
