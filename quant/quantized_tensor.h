// QuantizedTensor: codes, scales, zero points and spec, the one value that flows between rooms. The bytes are
// those of the packed file (formats/number/encoding.h gives their layout), so writing and reading copy
// nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/number/encoding.h"
#include "quant/code_grid.h"
#include "quant/codes/code_bytes.h"

namespace crumb {

/// The bytes of an encoded tensor, which another object owns (a QuantizedTensor or a mapped file).
struct QuantizedView {
  std::span<const uint64_t> shape;
  Encoding encoding;
  EncodedLayout layout;
  std::span<const std::byte> codes;
  std::span<const std::byte> scales;
  std::span<const std::byte> zeros;
  std::span<const std::byte> codebook;
  std::span<const float> tensor_scales;  ///< one a matrix; empty where the encoding has none

  /// Returns the factor of every scale of a matrix: 1 where the encoding has none.
  float tensor_scale(uint64_t matrix = 0) const {
    return encoding.tensor_scale ? tensor_scales[matrix] : 1.0F;
  }
};

/// Codes in memory that another object owns, such as a mapped file: they are checked at their first use.
/// Thread-safe.
class BorrowedCodes {
 public:
  virtual ~BorrowedCodes() = default;
  virtual std::span<const std::byte> bytes() const = 0;
  /// Throws Error, which names the tensor and the element, where the codes are not what was written. Checks
  /// once.
  virtual void check() const = 0;
  /// Gives memory back to the system that the system can fill again.
  virtual void release() const {}
};

struct QuantizedTensor {
  std::string spec;  ///< the canonical line of the QuantSpec that made it
  std::vector<uint64_t> shape;
  Encoding encoding;
  EncodedLayout layout;
  CodeBytes codes;                                ///< empty where they are borrowed
  std::shared_ptr<const BorrowedCodes> borrowed;  ///< null where the tensor owns its codes
  std::vector<std::byte> scales;
  std::vector<std::byte> zeros;
  std::vector<std::byte> codebook;
  std::vector<float> tensor_scales;  ///< one a matrix; empty where the encoding has none
  uint64_t saturated_scales = 0;     ///< scales that their format could not hold

  /// Returns a view of the tensor's bytes. Throws as check_codes() does.
  QuantizedView view() const {
    check_codes();
    return unchecked_view();
  }

  /// The same for callers that call check_codes() before they use a code. Any bits decode to something.
  QuantizedView unchecked_view() const {
    const std::span<const std::byte> bytes = borrowed ? borrowed->bytes() : std::span<const std::byte>(codes);
    return {shape, encoding, layout, bytes, scales, zeros, codebook, tensor_scales};
  }
  void check_codes() const {
    if (borrowed) borrowed->check();
  }
  /// Releases the codes' memory, for callers that do not need them for now.
  void release_codes() const {
    if (borrowed) borrowed->release();
  }
};

/// Returns one matrix of a stack as a tensor [rows, columns...] of its own: of each part the spans of this
/// matrix. Keeps the stack's spans. Precondition: index < stack.layout.matrices.
QuantizedView matrix_of(const QuantizedView& stack, uint64_t index);

/// Decodes rows of an encoded tensor; the rows of a stack are numbered through all of its matrices. Keeps the
/// view's spans, not their bytes. Thread-safe after construction.
class RowDecoder {
 public:
  explicit RowDecoder(const QuantizedView& view);

  uint64_t rows() const { return view_.layout.matrix.rows; }
  uint64_t cols() const { return view_.layout.matrix.cols; }
  /// Returns the grid of a row's codes. Palettes of a stack differ from matrix to matrix; then the grid is
  /// valid until this thread asks for another one.
  const CodeGrid& grid(uint64_t row = 0) const { return own_grids_ ? grid_of_matrix(row) : grid_; }

  /// The factor between a block's code values and its weights, and the block's zero point.
  float scale(uint64_t block) const;
  float zero_point(uint64_t block) const;
  /// Writes the factors of blocks [first, first + out.size()), all of one row of blocks: scale() of each.
  void scales(uint64_t first, std::span<float> out) const;
  /// scale() of the block of each slot [first, first + out.size()), which are slots of one matrix.
  void scales_of_slots(uint64_t first, std::span<float> out) const;
  /// The same of zero_point(), with the conditions of scales() and of scales_of_slots().
  void zero_points(uint64_t first, std::span<float> out) const;
  void zero_points_of_slots(uint64_t first, std::span<float> out) const;

  /// Writes the bit patterns of columns [first, first + codes.size()) of a row.
  void codes(uint64_t row, uint64_t first, std::span<uint8_t> codes) const;
  /// Writes the values of columns [first, first + out.size()) of a row.
  void values(uint64_t row, uint64_t first, std::span<float> out) const;
  /// Writes the values [first, first + out.size()) of the row-major flattening.
  void flat_values(uint64_t first, std::span<float> out) const;
  /// Scalar twin of values(): returns one weight.
  float value_ref(uint64_t row, uint64_t col) const;

 private:
  const CodeGrid& grid_of_matrix(uint64_t row) const;
  /// scales_of_slots() of every `step`-th slot.
  void decode_slots(uint64_t first, uint64_t step, std::span<float> out) const;

  QuantizedView view_;
  bool own_grids_;       ///< a stack of palettes: a file can have more palettes than memory holds grids
  uint64_t number_ = 0;  ///< of this decoder among those with own_grids_
  CodeGrid grid_;        ///< that of the first matrix
};

/// Decodes whole rows from `first_row` on, row-major: out.size() is a multiple of decoder.cols().
void decode_rows(const RowDecoder& decoder, uint64_t first_row, std::span<float> out, int threads = 0);

/// Decodes all values, row-major. Precondition: out.size() is the tensor's number of elements.
void dequantize(const QuantizedView& tensor, std::span<float> out, int threads = 0);

}  // namespace crumb
