// Floats compared bit for bit, but for the bits of NaN, which IEEE 754 leaves open.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace crumb::testing {

/// The bits of each value; of any NaN those of one.
inline std::vector<uint32_t> number_bits(std::span<const float> values) {
  constexpr uint32_t kNaN = 0x7FC00000;
  std::vector<uint32_t> bits;
  for (const float v : values) bits.push_back(std::isnan(v) ? kNaN : std::bit_cast<uint32_t>(v));
  return bits;
}

}  // namespace crumb::testing
