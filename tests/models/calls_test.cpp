// Sequences of calls of the C interface that are drawn (tests/fuzz/calls.h): nothing crashes, and promises are kept.
#include "tests/fuzz/calls.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "tests/support/testing.h"

namespace crumb::testing {
namespace {

TEST_CASE("the C interface: calls in any order, with any sizes") {
  const Calls calls;
  std::mt19937_64 random(47);
  const std::size_t wanted = slow() ? 10'000'000 : 15'000;  // the fuzz target `calls` goes on from there
  std::vector<std::byte> script;
  for (std::size_t made = 0; made < wanted;) {
    script.resize(random() % 400);
    for (std::byte& byte : script) byte = static_cast<std::byte>(random());
    made += calls.play(script);
  }
}

}  // namespace
}  // namespace crumb::testing
