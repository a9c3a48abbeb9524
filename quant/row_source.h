// RowSource: the values of packed weights by rows, for callers that need values and not codes.
//
// Codes of b bits under scales are one such source (rows_of). A format whose blocks only decode as a whole
// and may span several rows is another: it has no codes to return, and is multiplied all the same.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "quant/quantized_tensor.h"

namespace crumb {

/// A matrix [rows, cols] that is stored packed and decoded to float32 on request. Immutable; thread-safe.
class RowSource {
 public:
  virtual ~RowSource() = default;

  virtual uint64_t rows() const = 0;
  virtual uint64_t cols() const = 0;
  /// Returns its memory, in bytes.
  virtual uint64_t bytes() const = 0;
  /// Returns how many rows decode together, at least 1: a caller that asks for multiples of it, starting at a
  /// multiple of it, has no row decoded twice.
  virtual uint64_t rows_together() const { return 1; }
  /// Fills `out` with rows [first, first + out.size() / cols()), row-major: the same bits whichever rows are
  /// asked for together. Throws Error, which names the tensor and where in it, where the stored bytes are not
  /// what was written. Preconditions: out.size() is a multiple of cols(); those rows exist.
  virtual void decode(uint64_t first, std::span<float> out) const = 0;
};

/// Returns the rows of a tensor of codes, as RowDecoder decodes them; the rows of a stack are those of its
/// matrices, one after the other. Shares the tensor.
std::shared_ptr<const RowSource> rows_of(std::shared_ptr<const QuantizedTensor> tensor);

/// Decodes elements [first, first + out.size()) of the row-major flattening.
void decode_elements(const RowSource& source, uint64_t first, std::span<float> out);

}  // namespace crumb
