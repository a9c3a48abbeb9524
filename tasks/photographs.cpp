#include "tasks/photographs.h"

#include <string>

#include "base/files/text.h"
#include "formats/npy/npy.h"

namespace crumb::tasks {
namespace {

/// Returns the index of the pixel that orientation `turn` (0 to 7) moves to (y, x) of a tile.
std::size_t source_of(std::int64_t y, std::int64_t x, int turn) {
  if (turn & 4) std::swap(y, x);
  if (turn & 1) y = kLargeTile - 1 - y;
  if (turn & 2) x = kLargeTile - 1 - x;
  return static_cast<std::size_t>(y * kLargeTile + x);
}

/// One number for each pixel.
struct Picture {
  std::int64_t height = 0, width = 0;
  std::vector<float> values;

  float at(std::int64_t y, std::int64_t x) const { return values[static_cast<std::size_t>(y * width + x)]; }
};

/// Returns means over squares of `side` by `side` pixels; pixels that do not fill a square are left out.
Picture shrunk(const Picture& picture, std::int64_t side) {
  Picture small{.height = picture.height / side, .width = picture.width / side, .values = {}};
  for (std::int64_t i = 0; i < small.height * small.width; ++i) {
    float sum = 0;
    for (std::int64_t k = 0; k < side * side; ++k) {
      sum += picture.at(i / small.width * side + k / side, i % small.width * side + k % side);
    }
    small.values.push_back(sum / static_cast<float>(side * side));
  }
  return small;
}

void add_tile(const Picture& tile, int turn, Tiles& tiles) {
  Picture turned{.height = kLargeTile, .width = kLargeTile, .values = {}};
  for (std::int64_t y = 0; y < kLargeTile; ++y) {
    for (std::int64_t x = 0; x < kLargeTile; ++x) {
      turned.values.push_back(tile.values[source_of(y, x, turn)]);
    }
  }
  const Picture small = shrunk(turned, kZoom);
  tiles.large.insert(tiles.large.end(), turned.values.begin(), turned.values.end());
  tiles.small.insert(tiles.small.end(), small.values.begin(), small.values.end());
  ++tiles.count;
}

/// Adds a tile every `step` pixels, in so many orientations.
void add_tiles(const Picture& picture, std::int64_t step, int turns, Tiles& tiles) {
  for (std::int64_t top = 0; top + kLargeTile <= picture.height; top += step) {
    for (std::int64_t left = 0; left + kLargeTile <= picture.width; left += step) {
      Picture tile{.height = kLargeTile, .width = kLargeTile, .values = {}};
      for (std::int64_t i = 0; i < kLargeTile * kLargeTile; ++i) {
        tile.values.push_back(picture.at(top + i / kLargeTile, left + i % kLargeTile));
      }
      for (int turn = 0; turn < turns; ++turn) add_tile(tile, turn, tiles);
    }
  }
}

Picture brightness(const NpyArray& picture) {
  Picture made{.height = static_cast<std::int64_t>(picture.shape[0]),
               .width = static_cast<std::int64_t>(picture.shape[1]),
               .values = {}};
  for (const std::byte* rgb = picture.data.data(); rgb != picture.data.data() + picture.data.size();
       rgb += 3) {
    made.values.push_back(0.299F * static_cast<float>(rgb[0]) + 0.587F * static_cast<float>(rgb[1]) +
                          0.114F * static_cast<float>(rgb[2]));
  }
  return made;
}

}  // namespace

Result<Tiles> read_tiles(const std::filesystem::path& path, bool many) {
  const Result<NpyArray> read = read_npy(path);
  if (!read.ok()) return read.failure();
  const NpyArray& picture = read.value();
  if (picture.dtype != DType::kU8 || picture.shape.size() != 3 || picture.shape[2] != 3 ||
      picture.shape[0] < kLargeTile || picture.shape[1] < kLargeTile) {
    return Failure{quote_text(path.string()) +
                   ": expected a photograph, uint8 [height, width, 3] of 96 pixels and more"};
  }
  const Picture whole = brightness(picture);
  Tiles tiles;
  if (many) {
    add_tiles(whole, kLargeTile / 2, 8, tiles);
    add_tiles(shrunk(whole, 2), kLargeTile / 2, 8, tiles);
  } else {
    add_tiles(whole, kLargeTile, 1, tiles);
  }
  return tiles;
}

}  // namespace crumb::tasks
