// SplitMix64 as it was published: a raw state gives the numbers of the reference program (splitmix64.c, Vigna 2015), as
// they are printed elsewhere.
#include "tasks/random.h"

#include <doctest/doctest.h>

namespace {

using crumb::tasks::Random;

TEST_CASE("random: a raw state gives SplitMix64's published numbers") {
  // https://rosettacode.org/wiki/Pseudo-random_numbers/Splitmix64
  Random random = Random::from_state(1234567);
  for (const std::uint64_t expected : {6457827717110365317U, 3203168211198807973U, 9817491932198370423U,
                                       4593380528125082431U, 16408922859458223821U}) {
    CHECK(random.bits() == expected);
  }
  // The state that xoshiro's authors and many ports of it are seeded from.
  Random zero = Random::from_state(0);
  for (const std::uint64_t expected : {0xe220a8397b1dcdafU, 0x6e789e6aa1b965f4U, 0x06c45d188009454fU}) {
    CHECK(zero.bits() == expected);
  }
}

TEST_CASE("random: a seed's stream is SplitMix64 from a state that the seed and the stream mix to") {
  // The published function of one number: what the state 0x9e3779b97f4a7c15 less than it gives.
  const auto mix = [](std::uint64_t z) { return Random::from_state(z - 0x9e3779b97f4a7c15U).bits(); };
  for (const std::uint64_t seed : {0U, 1U, 77U}) {
    for (const std::uint64_t stream : {0U, 1U, 5U}) {
      const std::uint64_t state = mix(seed + 0x9e3779b97f4a7c15U) ^ mix(stream * 0xd1342543de82ef95U + 1);
      Random random(seed, stream), raw = Random::from_state(state);
      for (int i = 0; i < 5; ++i) CHECK(random.bits() == raw.bits());
    }
  }
}

}  // namespace
