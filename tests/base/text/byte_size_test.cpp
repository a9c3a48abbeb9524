#include "base/text/byte_size.h"

#include <doctest/doctest.h>

#include <random>
#include <string>

#include "tests/support/samples.h"

namespace crumb {
namespace {

using testing::says;

std::uint64_t bytes(const std::string& text) { return parse_byte_size(text).take(); }

std::string why(const std::string& text) {
  const Result<std::uint64_t> size = parse_byte_size(text);
  return size.ok() ? std::to_string(size.value()) : size.failure().message;
}

TEST_CASE("sizes as people write them") {
  CHECK(bytes("500MB") == 500'000'000);
  CHECK(bytes("1.5GB") == 1'500'000'000);
  CHECK(bytes("2 GiB") == std::uint64_t{2} << 30);
  CHECK(bytes("0.5kib") == 512);
  CHECK(bytes("7b") == 7);
  CHECK(bytes("3kB") == 3000);
  CHECK(bytes("12TB") == 12'000'000'000'000);
  CHECK(bytes("1tib") == std::uint64_t{1} << 40);
  CHECK(bytes("007.250MB") == 7'250'000);
  CHECK(bytes("18446744073709551615B") == ~std::uint64_t{0});
  CHECK(bytes("0.1MiB") == 104857);
  CHECK(bytes("0.99999999999999999999999999999999999999KB") == 999);
  CHECK(bytes("16777215.9999999999999TiB") > std::uint64_t{16777215} << 40);
}

TEST_CASE("what is no size says why") {
  CHECK(says(why(""), {"''", "does not begin with a number"}));
  CHECK(says(why("MB"), {"'MB'", "does not begin with a number"}));
  CHECK(says(why("-5MB"), {"does not begin with a number"}));
  CHECK(says(why(".5MB"), {"does not begin with a number"}));
  CHECK(says(why("5.MB"), {"after the point"}));
  CHECK(says(why("500"), {"'500'", "unit is missing", "500MB"}));
  CHECK(says(why("500 "), {"unit is missing"}));
  CHECK(says(why("1e9B"), {"unit 'e9B' is unknown"}));
  CHECK(says(why("5 MB "), {"unit 'MB ' is unknown"}));
  CHECK(says(why("5Mb/s"), {"unknown"}));
  CHECK(says(why("1,5GB"), {"unknown"}));
  CHECK(says(why("0MB"), {"less than one byte"}));
  CHECK(says(why("0.9B"), {"less than one byte"}));
  CHECK(says(why("18446744073709551616B"), {"2^64"}));
  CHECK(says(why("99999999999999999999999999MB"), {"2^64"}));
  CHECK(says(why("16777216TiB"), {"2^64"}));
}

TEST_CASE("fractions are exact to the byte") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 2000; ++round) {
    const std::uint64_t size = 1 + random() % 4'000'000'000;
    std::string digits = std::to_string(size);
    digits.insert(0, 10 - std::min<std::size_t>(digits.size(), 10), '0');
    REQUIRE(bytes(digits.substr(0, digits.size() - 9) + "." + digits.substr(digits.size() - 9) + "GB") ==
            size);
  }
}

}  // namespace
}  // namespace crumb
