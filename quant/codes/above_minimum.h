// Codes of a block that has a minimum instead of a zero point (ZeroPoint::kMinimum): q = clamp(round((x - m)
// / s), lo, hi), with difference and quotient rounded; 0 where s is 0. A code stands for q * s + m, both
// steps rounded, as in ggml's Q4_1 and Q5_1.
#pragma once

#include <cstdint>
#include <span>

#include "quant/code_grid.h"

namespace crumb {

/// Writes codes[x.size()]; `index` is the tensor index of x[0].
void encode_above_minimum(const CodeGrid& grid, std::span<const float> x, float s, float m, uint64_t index,
                          uint8_t* codes);

/// Scalar twin, one value.
inline uint8_t encode_above_minimum_ref(const CodeGrid& grid, float x, float s, float m, uint64_t index = 0) {
  return s > 0 ? encode_ref(grid, x - m, s, 0, index) : grid.zero_pattern(0);
}

}  // namespace crumb
