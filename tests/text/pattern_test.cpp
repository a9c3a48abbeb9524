#include "text/regex/pattern.h"

#include <doctest/doctest.h>

#include <string>

#include "text/regex/translate.h"

namespace crumb::text {
namespace {

/// Matches in brackets.
std::string marked(const std::string& expression, std::string_view text) {
  std::string out;
  for (const Stretch& s : Pattern::regex(expression).take().split(text)) {
    const std::string part(text.substr(s.begin, s.end - s.begin));
    out += s.is_match ? "[" + part + "]" : part;
  }
  return out;
}

TEST_CASE("expressions match as Oniguruma has them") {
  CHECK(marked(R"(\s+(?!\S)|\s+)", "a  b ") == "a[ ][ ]b[ ]");
  CHECK(marked(R"(\p{N}{1,3})", "12345a6") == "[123][45]a[6]");
  CHECK(marked(R"((?i:'s|'ll))", "it's I'LL") == "it['s] I['LL]");
  CHECK(marked(R"(\h)", "xa9g") == "x[a][9]g");
  CHECK(marked(R"(^a)", "a\na") == "[a]\n[a]");
  CHECK(marked(R"((?m:a.b))", "a\nb") == "[a\nb]");
  CHECK(marked(R"(a{,2}b)", "aaab") == "a[aab]");
  CHECK(marked("x*", "axxb") == "[]a[xx]b[]");
  CHECK(marked(R"(\bé+\b)", "é aé éé_ éé") == "[é] aé éé_ [éé]");
  CHECK(marked(R"(\Ba)", "aaa a") == "a[a][a] a");
}

TEST_CASE("classes inside classes and their intersections match as Oniguruma has them") {
  CHECK(marked(R"([^(\s|[.,!])]+)", "ab(c|d.e)f g") == "[ab]([c]|[d].[e])[f] [g]");
  CHECK(marked("[a[bc]d]+", "xabcdy") == "x[abcd]y");
  CHECK(marked(R"([\p{L}&&[^\p{Han}]]+)", "ab漢字c1") == "[ab]漢字[c]1");
  CHECK(marked("[a-f&&c-z]{2}", "abcdefg") == "ab[cd][ef]g");
  for (const char* expression :
       {"[a[^b]]", "[a[b[c]]]", "[a-[b]]", "[a[-b]]", "[a[b]-c]", "[a[]b]]", "[^a&&b]", "[a&&b&&c]",
        "[a&&[^b]c]", "[&&a]", "[a&&]", "[a&&^b]", "[[a&&b]]", "[a[b"}) {
    CAPTURE(expression);
    CHECK(!Pattern::regex(expression).ok());
  }
}

TEST_CASE("what PCRE2 would take for something else is refused") {
  for (const char* expression :
       {R"((a)\1)", R"((?<n>a))", R"([\b])", R"(a{2}?)", "[[:alpha:]]", "(*F)", "(?x: a)"}) {
    CAPTURE(expression);
    CHECK(!Pattern::regex(expression).ok());
  }
  CHECK(!Pattern::regex("(").ok());
  CHECK(!Pattern::regex(std::string(20'000, 'a')).ok());
  CHECK(!Pattern::literal("").ok());
}

TEST_CASE("a match may take what a long text needs, and no more") {
  const std::string spaces(200'000, ' ');
  CHECK(marked(R"(\s*[\r\n]+|\s+(?!\S)|\s+)", spaces + "a").size() == spaces.size() + 5);
  const Pattern hostile = Pattern::regex("(x+x+)+[yz]").take();
  CHECK_THROWS_WITH_AS(hostile.split(std::string(5000, 'x')),
                       doctest::Contains("takes too much on a text of 5000 bytes"), Error);
  CHECK(hostile.split("xxz").size() == 1);
  std::string many;  // each of these places is cheap enough, all of them are not
  for (int i = 0; i < 50'000; ++i) many += "xxxxxxxxxxxxxxxxxx ";
  CHECK_THROWS_AS(hostile.split(many), Error);
}

TEST_CASE("texts that would grow without end are refused") {
  const Pattern x = Pattern::literal("x").take();
  CHECK(x.replace("axb", "\u00e9") ==
        "a\u00e9"
        "b");
  CHECK_THROWS_AS(x.replace(std::string(100, 'x'), std::string(1 << 20, 'y')), Error);
}

}  // namespace
}  // namespace crumb::text
