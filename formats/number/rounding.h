// Rounding of a float32 to an integer value, bit-exact with QONNX's names
// (ROUND CEIL FLOOR UP DOWN HALF_UP HALF_DOWN), plus stochastic rounding.
//
//   half_even   nearest, ties to the even integer
//   half_up     sign(v) * floor(|v| + 0.5), the addition in float32 (so 0.49999997 rounds to 1, as in QONNX)
//   half_down   sign(v) * ceil(|v| - 0.5), likewise
//   ceil floor  toward +inf, toward -inf
//   up   down   away from zero, toward zero
//   stochastic  floor(v), plus one with probability v - floor(v); the random number of element i is a hash of
//               (seed, i), so neither thread count nor order changes a result
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/split_mix.h"

namespace crumb {

enum class Rounding : uint8_t { kHalfEven, kHalfUp, kHalfDown, kCeil, kFloor, kUp, kDown, kStochastic };

struct RoundingName {
  Rounding rounding;
  std::string_view name;
};

/// Every mode with the name it has in a spec; indexed by the enumerator.
inline constexpr RoundingName kRoundingNames[] = {
    {Rounding::kHalfEven, "half_even"}, {Rounding::kHalfUp, "half_up"},
    {Rounding::kHalfDown, "half_down"}, {Rounding::kCeil, "ceil"},
    {Rounding::kFloor, "floor"},        {Rounding::kUp, "up"},
    {Rounding::kDown, "down"},          {Rounding::kStochastic, "stochastic"},
};

inline std::string_view rounding_name(Rounding rounding) {
  return kRoundingNames[static_cast<size_t>(rounding)].name;
}

/// A rounding mode with what stochastic rounding needs besides.
struct RoundingMode {
  Rounding rounding = Rounding::kHalfEven;
  uint64_t seed = 0;  ///< stochastic only
  /// Whether no integer is nearer than the one it gives.
  bool is_nearest() const {
    return rounding == Rounding::kHalfEven || rounding == Rounding::kHalfUp ||
           rounding == Rounding::kHalfDown;
  }
  bool operator==(const RoundingMode&) const = default;
};

/// Uniform in [0, 1) with 24 bits, a hash of (seed, index) by SplitMix64.
inline float uniform_hash(uint64_t seed, uint64_t index) {
  return static_cast<float>(split_mix(seed * kSplitMixStep + index) >> 40) * 0x1p-24F;
}

/// Rounds `value` to an integer value; `index` is the element's index (stochastic rounding only).
inline float round_to_integer(float value, RoundingMode mode, uint64_t index = 0) {
  switch (mode.rounding) {
    case Rounding::kHalfEven: return std::nearbyint(value);
    case Rounding::kHalfUp: return std::copysign(std::floor(std::fabs(value) + 0.5F), value);
    case Rounding::kHalfDown: return std::copysign(std::ceil(std::fabs(value) - 0.5F), value);
    case Rounding::kCeil: return std::ceil(value);
    case Rounding::kFloor: return std::floor(value);
    case Rounding::kUp: return std::copysign(std::ceil(std::fabs(value)), value);
    case Rounding::kDown: return std::trunc(value);
    case Rounding::kStochastic: {
      const float floor = std::floor(value);
      return floor + (value - floor > uniform_hash(mode.seed, index) ? 1.0F : 0.0F);
    }
  }
  return value;
}

}  // namespace crumb
