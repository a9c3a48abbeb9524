#include "formats/number/encoding.h"

#include <algorithm>

#include "base/checked_size.h"
#include "formats/dtype.h"
#include "formats/number/packing.h"

namespace crumb {
namespace {

uint64_t ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

}  // namespace

Result<MatrixShape> matrix_shape(std::span<const uint64_t> shape) {
  checked::Size product = 1;
  for (const uint64_t axis : shape) {
    if (axis != 0) product = checked::multiply(product, axis);
  }
  if (!product || *product > kMostElements) {
    return Failure{"shape " + shape_text(shape) +
                   " is too large: its axes that are not 0 multiply to more than 2^58"};
  }
  if (std::ranges::find(shape, uint64_t{0}) != shape.end()) return MatrixShape{};
  if (shape.size() <= 1) return MatrixShape{1, *product};
  return MatrixShape{shape[0], *product / shape[0]};
}

Result<EncodedLayout> encoded_layout(const Encoding& encoding, std::span<const uint64_t> shape) {
  Result<MatrixShape> matrix = matrix_shape(shape);
  if (!matrix.ok()) return matrix.failure();
  EncodedLayout layout;
  layout.matrix = matrix.value();
  const auto [rows, cols] = layout.matrix;
  const bool in_tiles = encoding.codes == CodeLayout::kTiles;
  const uint64_t code_rows = in_tiles ? ceil_div(rows, kTileRows) : rows;
  const checked::Size row_bytes =
      in_tiles ? checked::multiply(ceil_div(cols, kTileCols), tile_bytes(encoding.number->bits))
               : checked::Size(packed_bytes(cols, encoding.number->bits));
  layout.block_rows = ceil_div(rows, encoding.block_rows);
  layout.blocks_per_row = ceil_div(cols, encoding.block_cols);
  layout.slots_in_tiles = in_tiles && encoding.block_rows == 1;
  // No more blocks than elements, and no more slots than sixteen times as many: 2^62.
  layout.slots = layout.slots_in_tiles ? code_rows * kTileRows * layout.blocks_per_row : layout.blocks();
  const checked::Size codes = checked::multiply(code_rows, row_bytes);
  const checked::Size scales = checked::multiply(layout.slots, scale_format_row(encoding.scale).bytes);
  checked::Size zeros = 0;
  if (encoding.zero == ZeroPoint::kInteger) {
    if (const checked::Size bits = checked::multiply(layout.slots, encoding.number->bits))
      zeros = *bits / 8 + (*bits % 8 != 0);
    else
      zeros = std::nullopt;
  } else if (encoding.zero != ZeroPoint::kNone) {
    zeros = checked::multiply(layout.slots, scale_format_row(zero_point_format(encoding.scale)).bytes);
  }
  if (!checked::add(checked::add(codes, scales), zeros))
    return Failure{"shape " + shape_text(shape) + " takes more bytes than 64 bits can count"};
  layout.row_bytes = *row_bytes;
  layout.codes_bytes = *codes;
  layout.scales_bytes = *scales;
  layout.zeros_bytes = *zeros;
  if (encoding.number->learned) layout.codebook_bytes = sizeof(float) << encoding.number->bits;
  if (encoding.tensor_scale) layout.tensor_scale_bytes = sizeof(float);
  return layout;
}

}  // namespace crumb
