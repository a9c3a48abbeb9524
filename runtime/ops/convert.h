// Numbers of one type as those of another: defined for all of them.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "runtime/array.h"

namespace crumb::runtime {

/// NaN; false of what is no float.
template <class T>
bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(x);
  return false;
}

/// The larger, the smaller; NaN where one is NaN.
template <class T>
T larger_of(T a, T b) {
  return is_nan(a) ? a : b > a || is_nan(b) ? b : a;
}
template <class T>
T smaller_of(T a, T b) {
  return is_nan(a) ? a : b < a || is_nan(b) ? b : a;
}

/// Rounds toward zero. Beyond the type's range: the nearest end of 64 bits, wrapped to the type. NaN gives 0.
template <class To, class From>
To converted(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (is_nan(x)) return 0;
    if (x >= static_cast<From>(0x1p63)) {
      if constexpr (std::is_same_v<To, std::uint64_t>)
        return x >= static_cast<From>(0x1p64) ? ~To{0} : static_cast<To>(x);
      return static_cast<To>(std::numeric_limits<std::int64_t>::max());
    }
    if (x <= static_cast<From>(-0x1p63)) return static_cast<To>(std::numeric_limits<std::int64_t>::min());
    return static_cast<To>(static_cast<std::int64_t>(x));
  } else {
    return static_cast<To>(x);
  }
}

/// Every element as one of the type. Throws Error where the type has no carrier.
Array cast(const Array& array, ElementType type);

}  // namespace crumb::runtime
