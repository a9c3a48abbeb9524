#include "formats/number/encoding.h"

#include <algorithm>

#include "base/checked_size.h"
#include "formats/dtype.h"
#include "formats/number/packing.h"

namespace crumb {
namespace {

uint64_t ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

}  // namespace

Result<MatrixShape> matrix_shape(std::span<const uint64_t> shape, uint64_t stack_axes) {
  checked::Size product = 1;
  for (const uint64_t axis : shape) {
    if (axis != 0) product = checked::multiply(product, axis);
  }
  if (!product || *product > kMostElements) {
    return Failure{"shape " + shape_text(shape) +
                   " is too large: its axes that are not 0 multiply to more than 2^58"};
  }
  if (stack_axes > 0 && shape.size() < stack_axes + 2) {
    return Failure{"shape " + shape_text(shape) + " is no stack of matrices over " +
                   std::to_string(stack_axes) + " axes: two more are their rows and columns"};
  }
  if (std::ranges::find(shape, uint64_t{0}) != shape.end()) return MatrixShape{};
  if (shape.size() <= 1) return MatrixShape{1, *product};
  uint64_t rows = 1;
  for (const uint64_t axis : shape.first(stack_axes + 1)) rows *= axis;
  return MatrixShape{rows, *product / rows};
}

Result<EncodedLayout> encoded_layout(const Encoding& encoding, std::span<const uint64_t> shape) {
  Result<MatrixShape> matrix = matrix_shape(shape, encoding.stack_axes);
  if (!matrix.ok()) return matrix.failure();
  EncodedLayout layout;
  layout.matrix = matrix.value();
  layout.block_height = encoding.block_rows;
  if (layout.matrix.size() > 0)
    for (const uint64_t axis : shape.first(encoding.stack_axes)) layout.matrices *= axis;
  layout.matrix_rows = layout.matrix.rows / layout.matrices;
  const uint64_t rows = layout.matrix_rows, cols = layout.matrix.cols;
  const bool in_tiles = encoding.codes == CodeLayout::kTiles;
  const uint64_t code_rows = in_tiles ? ceil_div(rows, kTileRows) : rows;
  const checked::Size row_bytes =
      in_tiles ? checked::multiply(ceil_div(cols, kTileCols), tile_bytes(encoding.number->bits))
               : checked::Size(packed_bytes(cols, encoding.number->bits));
  layout.bands = ceil_div(rows, encoding.block_rows);
  layout.block_rows = layout.matrices * layout.bands;
  layout.blocks_per_row = ceil_div(cols, encoding.block_cols);
  layout.slots_in_tiles = in_tiles && encoding.block_rows == 1;
  // No more blocks than elements, and no more slots than sixteen times as many: 2^62.
  layout.slots_each =
      layout.slots_in_tiles ? code_rows * kTileRows * layout.blocks_per_row : layout.blocks_each();
  layout.slots = layout.matrices * layout.slots_each;
  const checked::Size codes = checked::multiply(checked::multiply(code_rows, row_bytes), layout.matrices);
  const checked::Size scales = checked::multiply(layout.slots, scale_format_row(encoding.scale).bytes);
  checked::Size zeros = 0;
  if (encoding.zero == ZeroPoint::kInteger) {
    if (const checked::Size bits = checked::multiply(layout.slots_each, encoding.number->bits))
      zeros = *bits / 8 + (*bits % 8 != 0);
    else
      zeros = std::nullopt;
  } else if (encoding.zero != ZeroPoint::kNone) {
    zeros = checked::multiply(layout.slots_each, scale_format_row(zero_point_format(encoding.scale)).bytes);
  }
  layout.zeros_each = zeros.value_or(0);
  zeros = checked::multiply(zeros, layout.matrices);
  const checked::Size codebooks = checked::multiply(
      layout.matrices, encoding.number->learned ? sizeof(float) << encoding.number->bits : 0);
  if (!checked::add(checked::add(checked::add(codes, scales), zeros), codebooks))
    return Failure{"shape " + shape_text(shape) + " takes more bytes than 64 bits can count"};
  layout.row_bytes = *row_bytes;
  layout.codes_bytes = *codes;
  layout.scales_bytes = *scales;
  layout.zeros_bytes = *zeros;
  layout.codebook_bytes = *codebooks;
  if (encoding.tensor_scale) layout.tensor_scale_bytes = layout.matrices * sizeof(float);
  return layout;
}

}  // namespace crumb
