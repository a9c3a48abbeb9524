#include "base/files/text.h"

#include <doctest/doctest.h>

#include <string>

namespace crumb {

TEST_CASE("quoted text is one printable line") {
  CHECK(quote_text("layer.0.weight") == "'layer.0.weight'");
  CHECK(quote_text("a\nb'c\\") == "'a\\x0ab\\x27c\\x5c'");
  CHECK(quote_text("caf\xc3\xa9 \xff") == "'caf\xc3\xa9 \\xff'");
  CHECK(quote_text(std::string(1000, 'x')).size() < 140);
  CHECK(quote_text({"\0", 1}) == "'\\x00'");
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
