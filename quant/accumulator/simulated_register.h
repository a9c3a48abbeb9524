// A register of P bits, two's complement, that adds up products one after the other, step by step as hardware
// does, at reference speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace crumb {

enum class OverflowMode : std::uint8_t {
  kCheck,     ///< counted; the sum then goes on as it is, wider than the register
  kWrap,      ///< modulo 2^P
  kSaturate,  ///< the nearest number that the register holds
};

/// The largest magnitude of a product or an exact sum in a simulation, so that no step leaves 64 bits.
inline constexpr std::int64_t kMostSimulatedSum = (std::int64_t{1} << 62) - 1;

/// Counts additions whose result a register does not hold.
struct Overflows {
  struct First {
    std::int64_t sum = 0;   ///< before it is wrapped or clamped
    std::size_t terms = 0;  ///< the number of terms in `sum`; 0: the start alone
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

  /// Returns `start` plus codes[i] * inputs[i] in order, each addition on its own. There are as many codes as
  /// inputs. Every product, and with kCheck every sum, is at most kMostSimulatedSum in absolute value.
  std::int64_t sum(std::int64_t start, std::span<const std::int64_t> codes,
                   std::span<const std::int64_t> inputs, Overflows& overflows) const;

  /// Returns `sum` plus `term`, which is the term of number `terms`.
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
