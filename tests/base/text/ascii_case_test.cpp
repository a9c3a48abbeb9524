// Letters in one case: all bytes, against the C library in its own locale.
#include "base/text/ascii_case.h"

#include <doctest/doctest.h>

#include <cctype>

TEST_CASE("case: every byte is what the C locale makes of it") {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const std::string lower = crumb::lower_case(all), upper = crumb::upper_case(all);
  for (int byte = 0; byte < 256; ++byte) {
    const auto at = static_cast<std::size_t>(byte);
    CAPTURE(byte);
    CHECK(lower[at] == static_cast<char>(std::tolower(byte)));
    CHECK(upper[at] == static_cast<char>(std::toupper(byte)));
  }
}
