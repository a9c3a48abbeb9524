// Pictures for super-resolution: tiles of a photograph, and the same tiles at a third of the size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/error.h"

namespace crumb::tasks {

inline constexpr std::int64_t kSmallTile = 32, kZoom = 3, kLargeTile = kSmallTile * kZoom;

struct Tiles {
  std::vector<float> small;  ///< [count, 32, 32], brightness 0..255
  std::vector<float> large;  ///< [count, 96, 96]
  std::int64_t count = 0;
};

/// Reads tiles of a photograph (.npy, uint8 [height, width, 3]), next to each other from the top left.
/// Brightness is 0.299 red + 0.587 green + 0.114 blue; a small pixel is the mean of nine.
///
/// `many`, for training: a tile at every half of its side, each in its eight orientations, and the same from
/// the photograph at half its size (means of four pixels) where that holds a tile.
Result<Tiles> read_tiles(const std::filesystem::path& path, bool many);

}  // namespace crumb::tasks
