// A register of P bits, two's complement, that adds up products one after the other: what hardware does, step by step,
// at reference speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace crumb {

enum class OverflowMode : std::uint8_t {
  kCheck,     ///< counted, and then the sum goes on as it is, wider than the register
  kWrap,      ///< modulo 2^P
  kSaturate,  ///< the nearest number that the register holds
};

/// Products and exact sums of what is simulated lie within it, so that no step leaves 64 bits.
inline constexpr std::int64_t kMostSimulatedSum = (std::int64_t{1} << 62) - 1;

/// Additions whose result a register does not hold.
struct Overflows {
  struct First {
    std::int64_t sum = 0;   ///< before it is wrapped or clamped
    std::size_t terms = 0;  ///< that are in it; 0: the start alone
    bool operator==(const First&) const = default;
  };
  std::int64_t count = 0;
  std::optional<First> first;
};

class SimulatedRegister {
 public:
  /// 2 <= bits <= 63.
  SimulatedRegister(int bits, OverflowMode mode);

  int bits() const { return bits_; }
  OverflowMode mode() const { return mode_; }
  bool holds(std::int64_t sum) const { return sum >= low_ && sum <= high_; }

  /// `start`, then codes[i] * inputs[i] in order, each addition on its own. As many codes as inputs. Every product, and
  /// with kCheck every sum, is at most kMostSimulatedSum in absolute value.
  std::int64_t sum(std::int64_t start, std::span<const std::int64_t> codes,
                   std::span<const std::int64_t> inputs, Overflows& overflows) const;

  /// The sum of two, the second the term of that number.
  std::int64_t add(std::int64_t sum, std::int64_t term, std::size_t terms, Overflows& overflows) const {
    sum += term;
    return holds(sum) ? sum : overflowed(sum, terms, overflows);
  }

 private:
  std::int64_t overflowed(std::int64_t sum, std::size_t terms, Overflows& overflows) const;

  int bits_;
  OverflowMode mode_;
  std::int64_t low_, high_;
};

}  // namespace crumb
