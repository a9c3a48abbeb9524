#include "quant/codes/spacings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "base/threads/parallel.h"

namespace crumb {
namespace {

/// Returns the distance to the nearer neighbour, by bit pattern, at scale 1.
std::array<float, 256> gaps_of(const CodeGrid& grid) {
  std::vector<float> values;
  for (std::size_t pattern = 0; pattern < std::size_t{1} << grid.number->bits; ++pattern)
    if (std::isfinite(grid.values[pattern])) values.push_back(grid.values[pattern]);
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  std::array<float, 256> gaps{};
  for (std::size_t pattern = 0; pattern < std::size_t{1} << grid.number->bits; ++pattern) {
    const auto at = std::ranges::find(values, grid.values[pattern]);
    if (at == values.end()) continue;
    float gap = std::numeric_limits<float>::infinity();
    if (at != values.begin()) gap = *at - *(at - 1);
    if (at + 1 != values.end()) gap = std::min(gap, *(at + 1) - *at);
    gaps[pattern] = gap;
  }
  return gaps;
}

}  // namespace

std::vector<float> spacings(const QuantizedTensor& tensor) {
  const RowDecoder decoder(tensor.view());
  const auto rows = static_cast<std::size_t>(decoder.rows()),
             columns = static_cast<std::size_t>(decoder.cols());
  std::vector<float> made(rows * columns);
  parallel_for(rows, 64, 0, [&](std::size_t begin, std::size_t end) {
    std::vector<std::uint8_t> codes(columns);
    std::array<float, 256> gaps{};
    std::optional<std::uint64_t> of_matrix;  // palettes differ from matrix to matrix
    for (std::size_t row = begin; row < end; ++row) {
      if (const std::uint64_t matrix = tensor.layout.matrix_of_row(row); of_matrix != matrix) {
        gaps = gaps_of(decoder.grid(row));
        of_matrix = matrix;
      }
      decoder.codes(row, 0, codes);
      for (std::size_t k = 0; k < columns; ++k)
        made[row * columns + k] =
            gaps[codes[k]] * decoder.scale(tensor.layout.first_block(row) + k / tensor.encoding.block_cols);
    }
  });
  return made;
}

}  // namespace crumb
