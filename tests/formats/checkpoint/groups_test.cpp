// How many groups hold so many things, for any size that a file can give.
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <random>

#include "formats/checkpoint/quantized/quantized_matrix.h"

TEST_CASE("groups: as many as hold all, and one less does not, up to 2^64 - 1") {
  std::mt19937_64 random(61);
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  const auto drawn = [&] {
    const std::uint64_t any = random() >> random() % 64;
    return random() % 4 == 0 ? kMost - any % 5 : any;
  };
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t count = drawn(), size = drawn() | 1;
    const __uint128_t groups = crumb::groups_of(count, size);
    REQUIRE(groups * size >= count);
    REQUIRE((count == 0 ? groups == 0 : (groups - 1) * size < count));
  }
}
