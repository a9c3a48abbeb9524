// Powers of two in binary floats.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>

namespace crumb {

/// log2 of a power of two; nothing for other numbers.
inline std::optional<int> exponent_of(double value) {
  int exponent = 0;
  if (!std::isfinite(value) || std::frexp(value, &exponent) != 0.5) return {};
  return exponent - 1;
}

/// The exponent of the lowest bit that is set: the greatest power of two that the value is a whole multiple
/// of. Precondition: it is finite and not 0.
inline int lowest_bit(double value) {
  int exponent = 0;
  auto digits = static_cast<std::int64_t>(std::ldexp(std::frexp(std::fabs(value), &exponent), 53));
  exponent -= 53;
  while (digits % 2 == 0) {
    digits /= 2;
    ++exponent;
  }
  return exponent;
}

}  // namespace crumb
