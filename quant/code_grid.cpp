#include "quant/code_grid.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/number/minifloat.h"

namespace crumb {

CodeGrid make_code_grid(const NumberFormat& number, Range range, RoundingMode round,
                        std::span<const float> codebook) {
  CodeGrid grid{.number = &number, .round = round, .values = value_table(number, codebook)};
  grid.lo = static_cast<float>(number.least_code(range));
  grid.hi = static_cast<float>(number.greatest_code(range));
  grid.offset = number.grid == Grid::kHalfInteger ? -0.5F : 0.0F;
  grid.mask = number.bits_of(-1);
  if (number.grid == Grid::kCodebook) {
    for (int k = 0; k + 1 < 1 << number.bits; ++k) {
      const double middle = (static_cast<double>(grid.values[static_cast<size_t>(k)]) +
                             static_cast<double>(grid.values[static_cast<size_t>(k) + 1])) /
                            2;
      // For a float x: x > middle exactly when x > the largest float that is not above it.
      auto threshold = static_cast<float>(middle);
      if (static_cast<double>(threshold) > middle) {
        threshold = std::nextafter(threshold, -std::numeric_limits<float>::infinity());
      }
      grid.thresholds.push_back(threshold);
    }
  }
  return grid;
}

bool CodeGrid::has_zero() const {
  return std::any_of(values.begin(), values.begin() + (1 << number->bits), [](float v) { return v == 0.0F; });
}

uint8_t CodeGrid::zero_pattern(float zero_point) const { return encode_ref(*this, 0.0F, 1.0F, zero_point); }

uint8_t encode_ref(const CodeGrid& grid, float x, float s, float z, uint64_t index) {
  const NumberFormat& number = *grid.number;
  const float scaled = x / s;
  switch (number.grid) {
    case Grid::kInteger:
    case Grid::kHalfInteger: {
      const float shifted = scaled + (number.grid == Grid::kHalfInteger ? grid.offset : z);
      const float q = std::clamp(round_to_integer(shifted, grid.round, index), grid.lo, grid.hi);
      return number.bits_of(static_cast<int>(q));
    }
    case Grid::kBinary: return scaled >= 0 ? 1 : 0;
    case Grid::kMinifloat: return encode_minifloat(number, scaled, Overflow::kSaturate, grid.round, index);
    case Grid::kCodebook:
      return static_cast<uint8_t>(
          std::count_if(grid.thresholds.begin(), grid.thresholds.end(), [&](float t) { return scaled > t; }));
    case Grid::kExponent: break;
  }
  return 0;
}

}  // namespace crumb
