// Four floats at a time, on any processor (the vector extension of GCC and Clang): loops over them run as
// vectors at every level of optimisation, and give the bits that one float at a time would give.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace crumb::encoder {

inline constexpr size_t kLanes = 4;
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));
using IntLanes = int32_t __attribute__((vector_size(kLanes * sizeof(int32_t))));

inline Lanes all_lanes(float x) { return Lanes{x, x, x, x}; }

/// Replaces each value x by f of it; f takes and gives Lanes, each lane on its own.
template <class F>
void map_lanes(std::span<float> values, F f) {
  size_t i = 0;
  Lanes lanes;
  for (; i + kLanes <= values.size(); i += kLanes) {
    std::memcpy(&lanes, &values[i], sizeof lanes);
    lanes = f(lanes);
    std::memcpy(&values[i], &lanes, sizeof lanes);
  }
  const size_t rest = (values.size() - i) * sizeof(float);
  if (rest == 0) return;
  lanes = all_lanes(0);
  std::memcpy(&lanes, &values[i], rest);
  lanes = f(lanes);
  std::memcpy(&values[i], &lanes, rest);
}

/// The largest of one or more values.
inline float largest_of(std::span<const float> values) {
  float largest = values[0];
  size_t i = 0;
  if (values.size() >= kLanes) {
    Lanes most = all_lanes(largest);
    for (; i + kLanes <= values.size(); i += kLanes) {
      Lanes lanes;
      std::memcpy(&lanes, &values[i], sizeof lanes);
      most = lanes > most ? lanes : most;
    }
    for (size_t lane = 0; lane < kLanes; ++lane) largest = most[lane] > largest ? most[lane] : largest;
  }
  for (; i < values.size(); ++i) largest = values[i] > largest ? values[i] : largest;
  return largest;
}

}  // namespace crumb::encoder
