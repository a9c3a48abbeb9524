// A checksum of pieces is that of the whole, wherever it is cut and however many pieces are empty.
#include "base/checksum.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace {

TEST_CASE("checksums: of pieces") {
  CHECK(crumb::crc32_of(std::string_view("123456789")) == 0xCBF43926U);  // the check value of the polynomial
  std::mt19937 draw(3);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::byte> bytes(draw() % 200);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(draw());
    std::vector<std::size_t> cuts{0, bytes.size()};
    for (std::size_t i = draw() % 6; i > 0; --i) cuts.push_back(draw() % (bytes.size() + 1));
    std::ranges::sort(cuts);
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      sum = crumb::crc32_of(std::span(bytes).subspan(cuts[i], cuts[i + 1] - cuts[i]), sum);
      sum = crumb::crc32_of(std::span<const std::byte>(), sum);  // of no memory at all
    }
    CHECK(sum == crumb::crc32_of(bytes));
  }
}

}  // namespace
