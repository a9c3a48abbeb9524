#include "text/unicode.h"

#include <doctest/doctest.h>

#include "base/files/text.h"
#include "text/unicode_later.h"

namespace crumb::text::unicode {
namespace {

TEST_CASE("ill-formed UTF-8 becomes one U+FFFD for each maximal subpart, as in Python") {
  // bytes.decode("utf-8", "replace") of each
  CHECK(decode("a\xFFz") == U"a\uFFFDz");
  CHECK(decode("\xC0\x80") == U"\uFFFD\uFFFD");  // overlong
  CHECK(decode("\xE2\x82") == U"\uFFFD");        // cut short
  CHECK(decode("\xE2\x82z") == U"\uFFFDz");
  CHECK(decode("\xF0\x9F\x98") == U"\uFFFD");
  CHECK(decode("\xED\xA0\x80") == U"\uFFFD\uFFFD\uFFFD");            // a surrogate
  CHECK(decode("\xF4\x90\x80\x80") == U"\uFFFD\uFFFD\uFFFD\uFFFD");  // past U+10FFFF
  CHECK(decode("\xE0\x80\x80") == U"\uFFFD\uFFFD\uFFFD");
  CHECK(decode("\x80") == U"\uFFFD");
}

TEST_CASE("every code point survives encode and decode") {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c == 0xD800) c = 0xE000;
    const std::u32string one(1, c);
    const std::string bytes = encode(one);
    REQUIRE(decode(bytes) == one);
    REQUIRE(is_utf8(bytes));
  }
}

TEST_CASE("decomposition puts marks in canonical order") {
  CHECK(nfd(U"é") == U"e\u0301");
  CHECK(nfd(U"ṩ") == U"s\u0323\u0307");
  CHECK(nfd(U"q\u0307\u0323") == U"q\u0323\u0307");
  CHECK(nfd(U"가") == U"\u1100\u1161");
  CHECK(nfd(U"\u212B") == U"A\u030A");
  CHECK(nfd(U"ﬁ") == U"ﬁ");  // a compatibility decomposition, not a canonical one
}

TEST_CASE("what came after the tables of `tokenizers` is neither decomposed nor composed, in any form") {
  const std::string newer = "\U00011938", parts = "\U00011935\U00011930";
  for (const Form form : {Form::kNfc, Form::kNfd, Form::kNfkc, Form::kNfkd}) {
    const bool composes = form == Form::kNfc || form == Form::kNfkc;
    const std::string accented = composes ? "\u00E9" : "e\u0301";
    CHECK(normal_form(newer, form) == newer);
    CHECK(normal_form(parts, form) == parts);
    CHECK(normal_form("\u00E9" + parts + newer + "e\u0301" + parts, form) ==
          accented + parts + newer + accented + parts);
    CHECK(normal_form(newer + newer, form) == newer + newer);
    CHECK(normal_form("", form) == "");
  }
}

TEST_CASE("lower case is full, and knows no context") { CHECK(lowercase(U"ÀΣİẞ") == U"àσi\u0307ß"); }

TEST_CASE("the ranges of later characters are sorted and apart") {
  char32_t last = 0;
  for (const CodeRange range : kAssignedLater) {
    CHECK(range.first > last);
    CHECK(range.last >= range.first);
    last = range.last;
  }
  CHECK_FALSE(is_assigned_later(0));
  CHECK_FALSE(is_assigned_later(0x10FFFF));
  CHECK(is_assigned_later(0x61D));
  CHECK_FALSE(is_punctuation(0x61D));  // Arabic end of text mark, of Unicode 14
}

}  // namespace
}  // namespace crumb::text::unicode
