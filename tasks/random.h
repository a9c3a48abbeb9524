// Random numbers that are the same on every machine and with every standard library: integers by SplitMix64
// (Steele, Lea, Flood 2014), all others by IEEE additions and products of these.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/split_mix.h"

namespace crumb::tasks {

class Random {
 public:
  /// The streams of one seed are independent of each other.
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0)
      : state_(split_mix(seed) ^ split_mix_of_state(stream * 0xd1342543de82ef95U + 1)) {}

  /// Returns SplitMix64 from this state, as it was published.
  static Random from_state(std::uint64_t state) {
    Random random(0);
    random.state_ = state;
    return random;
  }

  std::uint64_t bits() {
    state_ += kSplitMixStep;
    return split_mix_of_state(state_);
  }

  /// Returns a number in [0, 1), 53 bits.
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }

  /// Returns a number in [0, n). The bias is below n / 2^64.
  std::uint64_t below(std::uint64_t n) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(bits()) * n) >> 64);
  }

  /// Returns a number of mean 0, variance 1: the sum of twelve uniform numbers less six, so within [-6, 6].
  /// No logarithm, no sine: their last bits differ among machines.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

  /// Returns a permutation of 0 ... n-1 (Fisher, Yates).
  std::vector<std::int64_t> permutation(std::size_t n) {
    std::vector<std::int64_t> order(n);
    for (std::size_t i = 0; i < n; ++i) order[i] = static_cast<std::int64_t>(i);
    for (std::size_t i = n; i > 1; --i) std::swap(order[i - 1], order[below(i)]);
    return order;
  }

 private:
  std::uint64_t state_;
};

}  // namespace crumb::tasks
