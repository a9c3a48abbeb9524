#include "qat/tasks/photographs.h"

#include <string>

#include "formats/io/text.h"
#include "formats/npy/npy.h"

namespace crumb::qat {
namespace {

/// Where orientation `turn` (0 to 7) takes a tile's pixel from.
std::size_t source_of(std::int64_t y, std::int64_t x, int turn) {
  if (turn & 4) std::swap(y, x);
  if (turn & 1) y = kLargeTile - 1 - y;
  if (turn & 2) x = kLargeTile - 1 - x;
  return static_cast<std::size_t>(y * kLargeTile + x);
}

void add_tile(const std::vector<float>& tile, int turn, Tiles& tiles) {
  const std::size_t start = tiles.large.size();
  for (std::int64_t y = 0; y < kLargeTile; ++y) {
    for (std::int64_t x = 0; x < kLargeTile; ++x) tiles.large.push_back(tile[source_of(y, x, turn)]);
  }
  for (std::int64_t y = 0; y < kSmallTile; ++y) {
    for (std::int64_t x = 0; x < kSmallTile; ++x) {
      float sum = 0;
      for (std::int64_t k = 0; k < kZoom * kZoom; ++k) {
        const std::int64_t row = y * kZoom + k / kZoom, column = x * kZoom + k % kZoom;
        sum += tiles.large[start + static_cast<std::size_t>(row * kLargeTile + column)];
      }
      tiles.small.push_back(sum / static_cast<float>(kZoom * kZoom));
    }
  }
  ++tiles.count;
}

}  // namespace

Result<Tiles> read_tiles(const std::filesystem::path& path, bool turned, std::int64_t step) {
  const Result<NpyArray> read = read_npy(path);
  if (!read.ok()) return read.failure();
  const NpyArray& picture = read.value();
  if (picture.dtype != DType::kU8 || picture.shape.size() != 3 || picture.shape[2] != 3 ||
      picture.shape[0] < kLargeTile || picture.shape[1] < kLargeTile) {
    return Failure{quote_text(path.string()) +
                   ": expected a photograph, uint8 [height, width, 3] of 96 pixels and more"};
  }
  const auto height = static_cast<std::int64_t>(picture.shape[0]),
             width = static_cast<std::int64_t>(picture.shape[1]);
  Tiles tiles;
  std::vector<float> tile(static_cast<std::size_t>(kLargeTile * kLargeTile));
  for (std::int64_t top = 0; top + kLargeTile <= height; top += step) {
    for (std::int64_t left = 0; left + kLargeTile <= width; left += step) {
      for (std::int64_t i = 0; i < kLargeTile * kLargeTile; ++i) {
        const std::int64_t pixel = (top + i / kLargeTile) * width + left + i % kLargeTile;
        const std::byte* rgb = &picture.data[static_cast<std::size_t>(pixel * 3)];
        tile[static_cast<std::size_t>(i)] = 0.299F * static_cast<float>(rgb[0]) +
                                            0.587F * static_cast<float>(rgb[1]) +
                                            0.114F * static_cast<float>(rgb[2]);
      }
      for (int turn = 0; turn < (turned ? 8 : 1); ++turn) add_tile(tile, turn, tiles);
    }
  }
  return tiles;
}

}  // namespace crumb::qat
