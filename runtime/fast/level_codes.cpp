#include "runtime/fast/level_codes.h"

#include <algorithm>
#include <cmath>

namespace crumb::runtime {
namespace {

constexpr float kMostLevel = 255, kLeastUnit = 0x1p-8F;
constexpr std::int32_t kMostWidth = 255;

std::optional<std::uint8_t> flip_of(const LevelCodes& codes, std::size_t count) {
  const std::uint8_t flip = codes.above[0];
  for (std::size_t code = 0; code < count; ++code)
    if (codes.above[code] != (code ^ flip)) return std::nullopt;
  return flip;
}

}  // namespace

std::optional<LevelCodes> LevelCodes::of(const CodeGrid& grid, int bits) {
  const std::size_t count = std::size_t{1} << bits;
  LevelCodes made{.bits = bits};
  std::array<std::int32_t, 256> levels{};
  for (made.unit = 1; made.unit >= kLeastUnit; made.unit /= 2) {
    bool is_whole = true;
    for (std::size_t code = 0; code < count; ++code) {
      const float value = grid.values[code];
      const float level = std::isfinite(value) ? value / made.unit : 0;
      if (std::abs(level) > kMostLevel) return std::nullopt;
      is_whole = is_whole && level == std::trunc(level);
      levels[code] = static_cast<std::int32_t>(level);
    }
    if (!is_whole) continue;
    const auto [least, most] = std::minmax_element(levels.begin(), levels.begin() + count);
    made.least = *least;
    made.widest = *most - *least;
    if (made.widest > kMostWidth) return std::nullopt;
    for (std::size_t code = 0; code < count; ++code)
      made.above[code] = static_cast<std::uint8_t>(levels[code] - made.least);
    made.flip = flip_of(made, count);
    return made;
  }
  return std::nullopt;
}

void codes_to_bytes(const LevelCodes& levels, std::span<std::uint8_t> codes) {
  if (levels.flip) {
    const std::uint8_t flip = *levels.flip;
    for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>(code ^ flip);
  } else {
    for (std::uint8_t& code : codes) code = levels.above[code];
  }
}

}  // namespace crumb::runtime
