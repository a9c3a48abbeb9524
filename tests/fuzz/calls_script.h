// Bytes as the choices of a sequence of calls (calls.h).
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "runtime/crumb.h"

namespace crumb::testing {

inline constexpr std::uint64_t kMostWork = std::uint64_t{1} << 16, kMostMemory = std::uint64_t{1} << 24;

/// Choices are 0 once the bytes are over.
class Script {
 public:
  explicit Script(std::span<const std::byte> bytes) : rest_(bytes) {}

  bool is_over() const { return rest_.empty(); }
  std::size_t byte() {
    if (rest_.empty()) return 0;
    const auto value = static_cast<std::size_t>(rest_.front());
    rest_ = rest_.subspan(1);
    return value;
  }
  std::size_t below(std::size_t n) { return byte() % n; }
  bool rarely() { return below(16) == 15; }

  /// Small numbers, those about the networks' sizes, and those at which integers end.
  std::uint64_t size() {
    constexpr std::array<std::uint64_t, 16> kSizes = {0,
                                                      1,
                                                      2,
                                                      7,
                                                      8,
                                                      9,
                                                      11,
                                                      12,
                                                      23,
                                                      24,
                                                      25,
                                                      255,
                                                      std::uint64_t{1} << 31,
                                                      std::uint64_t{1} << 32,
                                                      std::uint64_t{1} << 63,
                                                      ~std::uint64_t{0}};
    const std::size_t what = byte();
    return what < 128 ? what % 6 : kSizes[what % kSizes.size()];
  }
  double number() {
    constexpr std::array<double, 12> kNumbers = {
        0, 0.5, 1, 2, 0.9, 1e-300, -1, 1e9, -1e9, 1e99, HUGE_VAL, std::numeric_limits<double>::quiet_NaN()};
    return below(4) < 3 ? kNumbers[below(3)] : kNumbers[below(kNumbers.size())];
  }
  crumb_options options() {
    return {.threads = rarely() ? (below(2) == 0 ? -1 : 3) : 1,
            .memory = rarely() ? size() % kMostMemory + 1 : kMostMemory,
            .work = rarely() ? size() % kMostWork + 1 : kMostWork,
            .promise = rarely() ? static_cast<int>(below(4)) - 1 : static_cast<int>(below(2))};
  }

 private:
  std::span<const std::byte> rest_;
};

}  // namespace crumb::testing
