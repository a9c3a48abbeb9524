// Numbers of one type as those of another: defined for all of them.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

namespace crumb::runtime {

/// Toward zero; beyond the type's range its nearest end in 64 bits, wrapped to the type; NaN gives 0.
template <class To, class From>
To converted(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (x != x) return 0;
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

}  // namespace crumb::runtime
