#include "base/files/text.h"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

namespace crumb {

TEST_CASE("quoted text is one printable line") {
  CHECK(quote_text("layer.0.weight") == "'layer.0.weight'");
  CHECK(quote_text("a\nb'c\\") == "'a\\x0ab\\x27c\\x5c'");
  CHECK(quote_text("caf\xc3\xa9 \xff") == "'caf\xc3\xa9 \\xff'");
  CHECK(quote_text(std::string(1000, 'x')).size() < 140);
  CHECK(quote_text({"\0", 1}) == "'\\x00'");
}

TEST_CASE("of a long text both ends are shown, whatever it is made of") {
  std::mt19937_64 random(7);
  const std::vector<std::string> pieces = {"a", "/",  "model_weight", "\xc3\xa9", "\xf0\x9f\x8d\x9e",
                                           "'", "\n", "\xff",         "\x80"};
  int cut = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string text;
    const std::size_t length = random() % 400;
    while (text.size() < length) text += pieces[random() % pieces.size()];
    const std::string shown = quote_text(text);
    CAPTURE(text);
    REQUIRE(is_utf8(shown));
    REQUIRE(shown.find_first_of("\n\x7f") == std::string::npos);
    const std::string inside = shown.substr(1, shown.size() - 2);
    std::string whole;  // as if nothing were cut
    for (const char c : printable(text)) whole += c == '\'' ? std::string("\\x27") : std::string(1, c);
    if (text.size() <= 120) {
      REQUIRE(inside == whole);
      continue;
    }
    ++cut;
    const std::size_t dots = inside.find("...");  // in none of the pieces
    REQUIRE(dots != std::string::npos);
    const std::string head = inside.substr(0, dots), tail = inside.substr(dots + 3);
    REQUIRE(whole.starts_with(head));
    REQUIRE(head.size() >= 60);
    REQUIRE(whole.ends_with(tail));
    REQUIRE(tail.size() >= 57);
    REQUIRE(shown.size() <= 5 + 4 * (60 + 3 + 60));
  }
  CHECK(cut > 1000);
  const std::string path = std::string(300, 'd') + "/model.safetensors";
  CHECK(quote_text(path).ends_with("ddd/model.safetensors'"));
}

TEST_CASE("a terminal is given nothing that it would obey") {
  CHECK(printable("a 'b' \\ caf\xc3\xa9") == "a 'b' \\ caf\xc3\xa9");
  CHECK(printable("\x1b[2J\n\x7f\xff") == "\\x1b[2J\\x0a\\x7f\\xff");
  CHECK(printable("\xc2\x9b"
                  "1m \xc2\xa0") == "\\xc2\\x9b1m \xc2\xa0");
  CHECK(quote_text("\xc2\x9b") == "'\\xc2\\x9b'");
  CHECK(printable(std::string(1000, 'x')).size() == 1000);
}

TEST_CASE("UTF-8 is checked by the letter") {
  CHECK(is_utf8(""));
  CHECK(is_utf8("\xf0\x9f\x8d\x9e \xe4\xb8\xad \xc3\xa9"));
  for (const char* bad : {"\x80", "\xc0\x80", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
                          "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "a\xffz"})
    CHECK_FALSE(is_utf8(bad));
}

}  // namespace crumb
