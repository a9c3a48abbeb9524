// Regular expressions for names: against the system's matcher, hostile patterns, and what is refused.
#include "base/text/name_regex.h"

#include <doctest/doctest.h>
#include <regex.h>

#include <cctype>
#include <chrono>
#include <random>
#include <string>

#include "base/error.h"
#include "tests/support/samples.h"

using crumb::NameRegex;

namespace {

std::string pattern_refusal(const std::string& pattern) {
  try {
    (void)NameRegex(pattern);
    return {};
  } catch (const crumb::Error& error) {
    CHECK(error.kind() == crumb::ErrorKind::kUsage);
    return error.what();
  }
}

/// The same pattern for us and for the system's extended regular expressions, which have no (?:...), \d and +?.
struct Pair {
  std::string ours, system;
};

Pair random_pattern(std::mt19937& engine, int depth) {
  if (depth == 0) {
    static const Pair kAtoms[] = {
        {"a", "a"},           {"b", "b"},          {".", "."},     {"[ab]", "[ab]"}, {"[^a]", "[^a]"},
        {"\\d", "[0-9]"},     {"[a-c]", "[a-c]"},  {"\\.", "\\."}, {"1", "1"},       {"\\w", "[a-zA-Z0-9_]"},
        {"[^\\d]", "[^0-9]"}, {"[b\\D]", "[^0-9]"}};
    return kAtoms[engine() % 12];
  }
  const Pair one = random_pattern(engine, depth - 1), two = random_pattern(engine, depth - 1);
  switch (engine() % 6) {
    case 0: return {one.ours + two.ours, one.system + two.system};
    case 1: return {"(" + one.ours + "|" + two.ours + ")", "(" + one.system + "|" + two.system + ")"};
    case 2: return {"(?:" + one.ours + ")*", "(" + one.system + ")*"};
    case 3: return {"(" + one.ours + ")+?", "(" + one.system + ")+"};
    case 4: return {"(" + one.ours + "){1,2}", "(" + one.system + "){1,2}"};
    default: return {"(" + one.ours + ")?" + two.ours, "(" + one.system + ")?" + two.system};
  }
}

/// Whether the system's matcher takes the whole text.
class System {
 public:
  explicit System(const std::string& pattern) {
    REQUIRE(regcomp(&compiled_, ("^(" + pattern + ")$").c_str(), REG_EXTENDED | REG_NOSUB) == 0);
  }
  ~System() { regfree(&compiled_); }
  System(const System&) = delete;
  System& operator=(const System&) = delete;
  bool matches(const std::string& text) const {
    return regexec(&compiled_, text.c_str(), 0, nullptr, 0) == 0;
  }

 private:
  regex_t compiled_;
};

}  // namespace

TEST_CASE("name regex: what matches is what the system's matcher takes") {
  std::mt19937 engine(5);
  size_t matched = 0;
  for (int round = 0; round < 400; ++round) {
    const Pair pattern = random_pattern(engine, 1 + static_cast<int>(engine() % 4));
    CAPTURE(pattern.ours);
    const NameRegex regex(pattern.ours);
    const System oracle(pattern.system);
    for (int k = 0; k < 40; ++k) {
      std::string text;
      for (unsigned i = engine() % 7; i > 0; --i) text += "aab1.c"[engine() % 6];
      CAPTURE(text);
      const bool expected = oracle.matches(text);
      matched += expected;
      REQUIRE(regex.matches(text) == expected);
    }
  }
  CHECK(matched > 1000);  // the texts are not all misses
}

TEST_CASE("name regex: whole names, anchors, sets and characters beyond ASCII") {
  CHECK(NameRegex("abc").matches("abc"));
  CHECK_FALSE(NameRegex("abc").matches("abcd"));
  CHECK_FALSE(NameRegex("abc").matches("xabc"));
  CHECK(NameRegex("^abc$").matches("abc"));
  CHECK(NameRegex("(^a|b$)+").matches("ab"));
  CHECK_FALSE(NameRegex("a^b").matches("ab"));
  CHECK(NameRegex("").matches(""));
  CHECK_FALSE(NameRegex("").matches("a"));
  CHECK(NameRegex("gr.ße").matches("größe"));
  CHECK(NameRegex("[à-ü]{2}").matches("öé"));
  CHECK(NameRegex("[]a]+").matches("]a"));
  CHECK(NameRegex("[a-]+").matches("-a"));
  CHECK(NameRegex("[\\]\\-\\\\]+").matches("]-\\"));
  CHECK(NameRegex(".").matches("\xff"));
  CHECK_FALSE(NameRegex("[\\D]").matches("\xff"));
  CHECK(NameRegex("a\\{2\\}").matches("a{2}"));
  CHECK(NameRegex("model\\.layers\\.(1[0-9]|2\\d)\\.mlp\\..*").matches("model.layers.17.mlp.up_proj.weight"));
}

TEST_CASE("name regex: classes take the characters of ASCII that they name, and their capitals the others") {
  const struct {
    char small, capital;
    bool (*has)(int c);
  } classes[] = {{'d', 'D', [](int c) { return std::isdigit(c) != 0; }},
                 {'w', 'W', [](int c) { return std::isalnum(c) != 0 || c == '_'; }},
                 {'s', 'S', [](int c) { return std::isspace(c) != 0; }}};
  for (const auto& [small, capital, has] : classes) {
    for (const bool in_set : {false, true}) {
      const auto pattern = [&](char letter) {
        return (in_set ? "[\\" : "\\") + std::string(1, letter) + (in_set ? "]" : "");
      };
      const NameRegex yes(pattern(small)), no(pattern(capital));
      for (int c = 0; c < 0x80; ++c) {
        CAPTURE(c);
        CHECK(yes.matches(std::string(1, static_cast<char>(c))) == has(c));
        CHECK(no.matches(std::string(1, static_cast<char>(c))) == !has(c));
      }
      for (const char* beyond : {"\xc2\x80", "ß", "重", "\xf4\x8f\xbf\xbf"}) {
        CHECK_FALSE(yes.matches(beyond));
        CHECK(no.matches(beyond));
      }
    }
  }
  for (const char* beyond : {"\xc2\x80", "ß", "重", "\xf4\x8f\xbf\xbf"}) {
    CHECK(NameRegex(std::string("\\") + beyond).matches(beyond));
  }
}

TEST_CASE("name regex: what is refused says what, and where") {
  using crumb::testing::says;
  CHECK(says(pattern_refusal("a(b"), {"'('", "character 4"}));
  CHECK(says(pattern_refusal("ab)"), {"')'", "character 3"}));
  CHECK(says(pattern_refusal("[ab"), {"'['"}));
  CHECK(says(pattern_refusal("*a"), {"repetition of nothing"}));
  CHECK(says(pattern_refusal("a**"), {"repetition of a repetition"}));
  CHECK(says(pattern_refusal("a{3,2}"), {"below its least"}));
  CHECK(says(pattern_refusal("a{1001}"), {"more than 1000"}));
  CHECK(says(pattern_refusal("a{99999999999999999999}"), {"more than 1000"}));
  CHECK(says(pattern_refusal("a{x}"), {"\\{"}));
  CHECK(says(pattern_refusal("(?=a)"), {"(?=", "not supported"}));
  CHECK(says(pattern_refusal("(?!a)b"), {"(?!", "not supported"}));
  CHECK(says(pattern_refusal("(?"), {"not supported"}));
  CHECK(says(pattern_refusal("(?~"), {"found (?~;"}));
  for (const char* unseen : {"(? ", "(?\x7f", "(?ß"}) CHECK(says(pattern_refusal(unseen), {"found (?;"}));
  CHECK(says(pattern_refusal("\\bword"), {"\\b"}));
  CHECK(says(pattern_refusal("(a)\\1"), {"\\1"}));
  for (int c = 0x21; c < 0x7f; ++c) {
    const std::string escape{'\\', static_cast<char>(c)};
    CAPTURE(escape);
    const bool means = std::string("dwsDWStn").find(static_cast<char>(c)) != std::string::npos;
    CHECK(pattern_refusal(escape).empty() == (means || std::isalnum(c) == 0));
    if (std::isalnum(c) == 0) CHECK(NameRegex(escape).matches(std::string(1, static_cast<char>(c))));
  }
  CHECK(says(pattern_refusal("a\\"), {"backslash at the end"}));
  CHECK(says(pattern_refusal("[z-a]"), {"range"}));
  CHECK(says(pattern_refusal("[z-a"), {"range"}));
  CHECK(says(pattern_refusal("[\\d-z]"), {"range"}));
  CHECK(says(pattern_refusal("[[:alpha:]]"), {"\\w"}));
  CHECK(says(pattern_refusal("\xff"), {"UTF-8"}));
  CHECK(says(pattern_refusal(std::string(1001, 'a')), {"1000 bytes"}));
  CHECK(says(pattern_refusal(std::string(40, '(') + std::string(40, ')')), {"32 groups"}));
  CHECK(says(pattern_refusal("((a{100}){100}){100}"), {"states"}));
  CHECK(says(pattern_refusal("((((){1000}){1000}){1000}){1000}"), {"states"}));
}

TEST_CASE("name regex: no pattern takes long") {
  const auto start = std::chrono::steady_clock::now();
  const std::string name(5000, 'a');
  CHECK_FALSE(NameRegex("(a+)+b").matches(name));
  CHECK_FALSE(NameRegex("(a|a)*b").matches(name));
  CHECK_FALSE(NameRegex("(a*)*(a*)*(a*)*b").matches(name));
  CHECK(NameRegex("((a?){20}){20}a*").matches(name));
  CHECK_FALSE(NameRegex("(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)x").matches(name));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
}

TEST_CASE("name regex: any bytes are a pattern or an Error of usage") {
  std::mt19937 engine(11);
  const std::string alphabet = "ab()[]{}*+?|\\^$.-,:=0129dDwWsS\xc3\xb6\n";
  for (int round = 0; round < 20000; ++round) {
    std::string pattern;
    for (unsigned i = engine() % 20; i > 0; --i) pattern += alphabet[engine() % alphabet.size()];
    if (pattern_refusal(pattern).empty()) (void)NameRegex(pattern).matches("ab.d0\n");
  }
}
