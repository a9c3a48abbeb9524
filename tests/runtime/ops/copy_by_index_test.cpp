// Copies by an index for each axis take the element that the definition says.
#include "runtime/ops/copy_by_index.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

using crumb::runtime::copy_by_index;
using crumb::runtime::Ints;
using crumb::runtime::kNoElement;

namespace {

/// The offsets of an axis of `size` elements that are `step` apart: padded, repeated, reversed or drawn.
Ints drawn_index(std::mt19937_64& engine, std::int64_t size, std::int64_t step) {
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(n));
  };
  Ints offsets;
  const std::int64_t kind = below(4), out = kind == 0 ? size : 1 + below(9), before = below(3);
  if (kind == 0) offsets.assign(static_cast<std::size_t>(before), kNoElement);
  for (std::int64_t i = 0; i < out; ++i) {
    const std::int64_t index = kind == 0   ? i
                               : kind == 1 ? i * size / out
                               : kind == 2 ? std::max<std::int64_t>(size - 1 - i, kNoElement)
                                           : below(size + 1) - 1;
    offsets.push_back(index == kNoElement ? kNoElement : index * step);
  }
  if (kind == 0) offsets.insert(offsets.end(), static_cast<std::size_t>(below(3)), kNoElement);
  return offsets;
}

}  // namespace

TEST_CASE("copies by index: padded, repeated and drawn axes have the elements of the definition") {
  std::mt19937_64 engine(52);
  for (int round = 0; round < 4000; ++round) {
    CAPTURE(round);
    const std::size_t rank = engine() % 4;
    std::vector<Ints> offsets(rank);
    std::int64_t elements = 1;
    std::size_t results = 1;
    for (std::size_t i = rank; i-- > 0;) {
      const auto size = static_cast<std::int64_t>(1 + engine() % 6);
      offsets[i] = drawn_index(engine, size, elements);
      elements *= size;
      results *= offsets[i].size();
    }
    std::vector<int> from(static_cast<std::size_t>(elements)), made(results, -2), expected(results);
    for (int& value : from) value = static_cast<int>(engine() % 1000);
    for (std::size_t n = 0; n < results; ++n) {
      std::int64_t at = 0;
      std::size_t rest = n;
      for (std::size_t i = rank; i-- > 0; rest /= offsets[i].size()) {
        const std::int64_t offset = offsets[i][rest % offsets[i].size()];
        at = at == kNoElement || offset == kNoElement ? kNoElement : at + offset;
      }
      expected[n] = at == kNoElement ? 7 : from[static_cast<std::size_t>(at)];
    }
    copy_by_index<int>(from.data(), offsets, 7, made);
    CHECK(made == expected);
  }
}
