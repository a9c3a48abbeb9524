// Codes as the integers that byte products take: of a code its level, which is its value in the unit that
// makes all values of the format integers; and the level less the least one, which has no sign.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "quant/code_grid.h"

namespace crumb::runtime {

struct LevelCodes {
  int bits = 0;
  float unit = 1;                         ///< the value of level 1, before scales: a power of two
  std::int32_t least = 0;                 ///< of all levels
  std::int32_t widest = 0;                ///< the greatest level less the least: at most 255
  std::array<std::uint8_t, 256> above{};  ///< by code: its level less `least`
  /// Where all codes c have above[c] = c ^ flip: then no table is needed.
  std::optional<std::uint8_t> flip;

  std::int32_t level(std::uint8_t code) const { return above[code] + least; }

  /// Absent unless every value is an integer from -255 to 255 times one power of two from 2^-8 to 1, and they
  /// are at most 255 apart. Values that are not finite count as 0.
  static std::optional<LevelCodes> of(const CodeGrid& grid, int bits);
};

/// Replaces codes by their bytes `above`.
void codes_to_bytes(const LevelCodes& levels, std::span<std::uint8_t> codes);

}  // namespace crumb::runtime
