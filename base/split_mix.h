// SplitMix64 (Steele, Lea, Flood 2014): 64 bits that look drawn, of a counter or of a place; the same everywhere.
#pragma once

#include <cstdint>

namespace crumb {

/// By how much its state goes on.
inline constexpr std::uint64_t kSplitMixStep = 0x9E3779B97F4A7C15U;

/// What it makes of a state: a permutation of the numbers of 64 bits.
constexpr std::uint64_t split_mix_of_state(std::uint64_t state) {
  state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9U;
  state = (state ^ (state >> 27)) * 0x94D049BB133111EBU;
  return state ^ (state >> 31);
}

/// What it gives first where it begins at `seed`: a hash of it.
constexpr std::uint64_t split_mix(std::uint64_t seed) { return split_mix_of_state(seed + kSplitMixStep); }

}  // namespace crumb
