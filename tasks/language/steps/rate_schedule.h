// The learning rate over a run's steps: it grows, then falls, or stays. Free of LibTorch.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace crumb::tasks {

/// The rate after the steps in which it grows.
enum class RateSchedule : std::uint8_t {
  kCosine,    ///< half a cosine, to 0 after the last step
  kLinear,    ///< a straight line to 0 there
  kConstant,  ///< the highest rate to the end
};

inline constexpr std::array<std::string_view, 3> kRateScheduleNames = {"cosine", "linear", "constant"};

inline std::string_view name_of(RateSchedule schedule) {
  return kRateScheduleNames.at(static_cast<std::size_t>(schedule));
}

/// Returns the share of the highest rate in a step, counted from 0, of `steps`; it grows evenly in the first
/// `warm_up`.
inline double share_of_rate(RateSchedule schedule, std::int64_t step, std::int64_t steps,
                            std::int64_t warm_up) {
  if (step < warm_up) return static_cast<double>(step + 1) / static_cast<double>(warm_up);
  const double done =
      static_cast<double>(step - warm_up) / static_cast<double>(std::max<std::int64_t>(steps - warm_up, 1));
  switch (schedule) {
    case RateSchedule::kCosine: return (1 + std::cos(std::numbers::pi * done)) / 2;
    case RateSchedule::kLinear: return 1 - done;
    case RateSchedule::kConstant: return 1;
  }
  return 1;
}

}  // namespace crumb::tasks
