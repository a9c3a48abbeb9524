// The quantile of sorted numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace crumb::eval {

/// Between the two nearest, as numpy's default has it. Precondition: sorted, not empty; 0 <= share <= 1.
inline double quantile(std::span<const double> values, double share) {
  const double at = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const double next = values[std::min(below + 1, values.size() - 1)];
  return values[below] + (next - values[below]) * (at - static_cast<double>(below));
}

}  // namespace crumb::eval
