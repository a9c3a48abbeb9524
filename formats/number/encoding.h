// How one tensor's codes are laid out: all that a reader needs besides the bytes.
//
// A tensor of any shape is a matrix: axis 0 gives the rows, the row-major flattening of the other axes the
// columns; a tensor of rank 0 or 1 is one row. The matrix is cut into blocks of block_rows x block_cols
// (those at the right and lower edge may be smaller); a block shares one scale and one zero point. Blocks are
// numbered row by row: block (i / block_rows, j / block_cols) has index (i / block_rows) * blocks_per_row + j
// / block_cols. Every granularity is such a block: tensor = rows x cols, channel = 1 x cols, group=N = 1 x N.
//
//   codes       CodeLayout::kRows: every row packed on its own (packing.h), rows * packed_bytes(cols, bits)
//               bytes; kTiles: tiles of 16 x 32 (tiles.h), row of tiles by row of tiles, zero bits beyond the
//               matrix
//   scales      one per slot, in the scale format; a block's slot is its number, but for tiles of blocks of
//               one row, where the scales of 16 rows lie together (EncodedLayout::slot)
//   zeros       ZeroPoint::kInteger: one code per slot in the number format's own bits, packed as a single
//               row; kFloat, kMinimum: one float per slot in zero_point_format(scale)
//   codebook    learned codebooks: 2^bits float32, ascending
//   tensor_scale  one float32
//
// A stack (stack_axes above 0) is a tensor [batch..., rows, columns...] of matrices that are encoded each by
// itself: a part has the bytes of the first matrix' part, then those of the second, and so on. Rows and
// blocks are numbered on through all of them.
//
//   value = (value of code - zero point) * effective scale, or with ZeroPoint::kMinimum
//   value = value of code * effective scale + zero point
//   effective scale = scale * 2^scale_exponent * tensor_scale (the last two only where present; one float32
//   product each, in this order)
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "formats/number/number_format.h"
#include "formats/number/scale_format.h"
#include "formats/number/tiles.h"

namespace crumb {

enum class ZeroPoint : uint8_t { kNone, kInteger, kFloat, kMinimum };

/// The names of the zero point kinds in specs and files, indexed by the enumerator.
inline constexpr std::string_view kZeroPointNames[] = {"none", "int", "float", "min"};
/// Likewise for Range.
inline constexpr std::string_view kRangeNames[] = {"narrow", "full"};

/// The order of codes in memory.
enum class CodeLayout : uint8_t { kRows, kTiles };
inline constexpr std::string_view kCodeLayoutNames[] = {"rows", "tiles"};

struct Encoding {
  const NumberFormat* number = nullptr;
  Range range = Range::kFull;
  ScaleFormat scale = ScaleFormat::kF32;
  int scale_exponent = 0;
  bool tensor_scale = false;
  ZeroPoint zero = ZeroPoint::kNone;
  uint64_t block_rows = 1;  ///< at least 1
  uint64_t block_cols = 1;  ///< at least 1
  CodeLayout codes = CodeLayout::kRows;
  bool signed_scales = false;  ///< scales may be negative
  uint64_t stack_axes = 0;     ///< leading axes that number matrices; 0: the tensor is one

  bool operator==(const Encoding&) const = default;

  /// Whether a value is a level (a whole or half number, or another value of the grid) minus a zero point,
  /// times a scale that is not negative. Integer arithmetic and the files of other tools need that.
  bool has_levels() const { return zero != ZeroPoint::kMinimum && !signed_scales; }
};

/// The most elements of a tensor: times eight bits, and times a scale's bytes, they still fit 64 bits.
inline constexpr uint64_t kMostElements = uint64_t{1} << 58;

/// The matrix that a shape stands for.
struct MatrixShape {
  uint64_t rows = 0;
  uint64_t cols = 0;
  uint64_t size() const { return rows * cols; }
};

/// For a stack, all matrices, one below the other. Fails where the product of the axes exceeds 2^58, or where
/// a stack has fewer than two axes left.
Result<MatrixShape> matrix_shape(std::span<const uint64_t> shape, uint64_t stack_axes = 0);

/// Sizes in bytes of the parts of an encoded tensor, and the block counts behind them.
struct EncodedLayout {
  MatrixShape matrix;           ///< of a stack all of them
  uint64_t matrices = 1;        ///< of a stack, at least 1
  uint64_t matrix_rows = 0;     ///< of one matrix
  uint64_t block_height = 1;    ///< Encoding::block_rows
  uint64_t row_bytes = 0;       ///< of one row of codes, or one row of tiles
  uint64_t bands = 0;           ///< blocks of one matrix from top to bottom
  uint64_t block_rows = 0;      ///< blocks from top to bottom
  uint64_t blocks_per_row = 0;  ///< blocks from left to right
  uint64_t slots_each = 0;      ///< slots for scales and zero points of one matrix
  uint64_t slots = 0;           ///< all slots
  bool slots_in_tiles = false;  ///< those of a tile's 16 rows lie together
  uint64_t zeros_each = 0;      ///< bytes of one matrix' zero points
  uint64_t codes_bytes = 0;
  uint64_t scales_bytes = 0;
  uint64_t zeros_bytes = 0;
  uint64_t codebook_bytes = 0;
  uint64_t tensor_scale_bytes = 0;

  uint64_t blocks() const { return block_rows * blocks_per_row; }
  /// Blocks of one matrix.
  uint64_t blocks_each() const { return bands * blocks_per_row; }

  /// The matrix that a block belongs to. Precondition: the tensor has elements.
  uint64_t matrix_of_block(uint64_t block) const { return matrices == 1 ? 0 : block / blocks_each(); }
  uint64_t matrix_of_row(uint64_t row) const { return matrices == 1 ? 0 : row / matrix_rows; }

  /// The leftmost block that a row crosses. Precondition: the tensor has elements.
  uint64_t first_block(uint64_t row) const {
    if (matrices == 1) return row / block_height * blocks_per_row;
    return (row / matrix_rows * bands + row % matrix_rows / block_height) * blocks_per_row;
  }

  /// For codes in tiles: the row of tiles that a row is in, and its index among the 16 rows.
  uint64_t tile_row(uint64_t row) const {
    const uint64_t each = (matrix_rows + kTileRows - 1) / kTileRows;
    return matrices == 1 ? row / kTileRows : row / matrix_rows * each + row % matrix_rows / kTileRows;
  }
  uint64_t row_in_tile(uint64_t row) const { return (matrices == 1 ? row : row % matrix_rows) % kTileRows; }

  /// The slot of the scale and the zero point of a block.
  uint64_t slot(uint64_t block) const {
    if (!slots_in_tiles) return block;
    const uint64_t before = matrix_of_block(block), own = block - before * blocks_each();
    const uint64_t row = own / blocks_per_row, across = own % blocks_per_row;
    return before * slots_each + (row / kTileRows * blocks_per_row + across) * kTileRows + row % kTileRows;
  }
  /// The block of a slot; nothing where the slot belongs to no row.
  std::optional<uint64_t> block_of(uint64_t slot_index) const {
    if (!slots_in_tiles) return slot_index;
    const uint64_t before = slot_index / slots_each, own = slot_index % slots_each;
    const uint64_t tile = own / kTileRows;
    const uint64_t row = tile / blocks_per_row * kTileRows + own % kTileRows;
    if (row >= bands) return std::nullopt;
    return before * blocks_each() + row * blocks_per_row + tile % blocks_per_row;
  }
  uint64_t total_bytes() const {
    return codes_bytes + scales_bytes + zeros_bytes + codebook_bytes + tensor_scale_bytes;
  }
};

/// Fails when the shape or a size overflows. Precondition: the encoding's blocks are not empty.
Result<EncodedLayout> encoded_layout(const Encoding& encoding, std::span<const uint64_t> shape);

}  // namespace crumb
