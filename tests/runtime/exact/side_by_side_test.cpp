#include "runtime/exact/side_by_side.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/processor.h"

namespace crumb::runtime::exact {
namespace {

TEST_CASE("side by side: rows of numbers become columns, and absent rows have what the last one has") {
  std::mt19937 engine(11);
  for (int round = 0; round < 1000; ++round) {
    const std::size_t rows = 1 + engine() % 16, count = 1 + engine() % 70, stride = count + engine() % 5;
    std::vector<std::uint32_t> from((rows - 1) * stride + count), made(16 * count + 3, 77), by_avx2(made);
    for (std::uint32_t& number : from) number = static_cast<std::uint32_t>(engine());
    side_by_side_ref(from.data(), stride, rows, count, made.data());
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t r = 0; r < 16; ++r)
        REQUIRE(made[16 * i + r] == from[std::min(r, rows - 1) * stride + i]);
    REQUIRE(std::all_of(made.end() - 3, made.end(), [](std::uint32_t number) { return number == 77; }));
    if (!may_use(Isa::kAvx2)) continue;
    side_by_side_avx2(from.data(), stride, rows, count, by_avx2.data());
    REQUIRE(by_avx2 == made);
  }
}

}  // namespace
}  // namespace crumb::runtime::exact
