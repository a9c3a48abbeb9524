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

/// The bytes of an encoded tensor, owned by somebody else (a QuantizedTensor or a mapped file).
struct QuantizedView {
  std::span<const uint64_t> shape;
  Encoding encoding;
  EncodedLayout layout;
  std::span<const std::byte> codes;
  std::span<const std::byte> scales;
  std::span<const std::byte> zeros;
  std::span<const std::byte> codebook;
  std::span<const float> tensor_scales;  ///< one a matrix; empty where the encoding has none

  /// The factor of every scale of a matrix: 1 where the encoding has none.
  float tensor_scale(uint64_t matrix = 0) const {
    return encoding.tensor_scale ? tensor_scales[matrix] : 1.0F;
  }
};

/// Codes in memory that somebody else owns, a mapped file's: they are looked at when they are first used. Thread-safe.
class LentCodes {
 public:
  virtual ~LentCodes() = default;
  virtual std::span<const std::byte> bytes() const = 0;
  /// Throws Error, which names tensor and place, where they are not what was written; looks once.
  virtual void check() const = 0;
  /// Gives memory that the system can fill again back to it.
  virtual void release() const {}
};

struct QuantizedTensor {
  std::string spec;  ///< the canonical line of the QuantSpec that made it
  std::vector<uint64_t> shape;
  Encoding encoding;
  EncodedLayout layout;
  CodeBytes codes;                        ///< empty where they are lent
  std::shared_ptr<const LentCodes> lent;  ///< null where they are its own
  std::vector<std::byte> scales;
  std::vector<std::byte> zeros;
  std::vector<std::byte> codebook;
  std::vector<float> tensor_scales;  ///< one a matrix; empty where the encoding has none
  uint64_t saturated_scales = 0;     ///< scales that their format could not hold

  /// The tensor's bytes. Throws as check_codes() does.
  QuantizedView view() const {
    check_codes();
    return unchecked_view();
  }

  /// For those who call check_codes() before they use a code. Any bits decode to something.
  QuantizedView unchecked_view() const {
    const std::span<const std::byte> bytes = lent ? lent->bytes() : std::span<const std::byte>(codes);
    return {shape, encoding, layout, bytes, scales, zeros, codebook, tensor_scales};
  }
  void check_codes() const {
    if (lent) lent->check();
  }
  /// For those who are through with them for now.
  void release_codes() const {
    if (lent) lent->release();
  }
};

/// One matrix of a stack, as a tensor [rows, columns...] of its own: the spans of its part of every part. Keeps the
/// stack's spans. Precondition: index < stack.layout.matrices.
QuantizedView matrix_of(const QuantizedView& stack, uint64_t index);

/// Decodes rows of an encoded tensor, of a stack through all of its matrices. Keeps the view's spans, not their bytes. Thread-safe after
/// construction.
class RowDecoder {
 public:
  explicit RowDecoder(const QuantizedView& view);

  uint64_t rows() const { return view_.layout.matrix.rows; }
  uint64_t cols() const { return view_.layout.matrix.cols; }
  /// Of the codes of a row. Palettes of a stack differ from matrix to matrix: theirs is valid until this thread asks for
  /// another one.
  const CodeGrid& grid(uint64_t row = 0) const { return own_grids_ ? grid_of_matrix(row) : grid_; }

  /// The factor between code values and weights of a block, and its zero point.
  float scale(uint64_t block) const;
  float zero_point(uint64_t block) const;
  /// The factors of blocks [first, first + out.size()), which are of one row of blocks: scale() of each.
  void scales(uint64_t first, std::span<float> out) const;

  /// The bit patterns of columns [first, first + codes.size()) of a row.
  void codes(uint64_t row, uint64_t first, std::span<uint8_t> codes) const;
  /// The values of columns [first, first + out.size()) of a row.
  void values(uint64_t row, uint64_t first, std::span<float> out) const;
  /// The values [first, first + out.size()) of the row-major flattening.
  void flat_values(uint64_t first, std::span<float> out) const;
  /// Scalar twin of values(), one weight at a time.
  float value_ref(uint64_t row, uint64_t col) const;

 private:
  const CodeGrid& grid_of_matrix(uint64_t row) const;

  QuantizedView view_;
  bool own_grids_;  ///< a stack of palettes: files can have more of them than there is memory for their grids
  uint64_t number_ = 0;  ///< of the decoder among those with own_grids_
  CodeGrid grid_;        ///< of the first matrix
};

/// Whole rows from `first_row` on, row-major: out.size() is a multiple of decoder.cols().
void decode_rows(const RowDecoder& decoder, uint64_t first_row, std::span<float> out, int threads = 0);

/// All values, row-major. Precondition: out.size() is the tensor's number of elements.
void dequantize(const QuantizedView& tensor, std::span<float> out, int threads = 0);

}  // namespace crumb
