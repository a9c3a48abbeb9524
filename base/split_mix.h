// SplitMix64 (Steele, Lea, Flood 2014): 64 pseudorandom bits of a counter or an index, the same on every
// machine.
#pragma once

#include <cstdint>

namespace crumb {

/// The step of its state.
inline constexpr std::uint64_t kSplitMixStep = 0x9E3779B97F4A7C15U;

/// Returns its output for a state: a permutation of the 64-bit numbers.
constexpr std::uint64_t split_mix_of_state(std::uint64_t state) {
  state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9U;
  state = (state ^ (state >> 27)) * 0x94D049BB133111EBU;
  return state ^ (state >> 31);
}

/// Returns its first output from `seed`: a hash of it.
constexpr std::uint64_t split_mix(std::uint64_t seed) { return split_mix_of_state(seed + kSplitMixStep); }

}  // namespace crumb
