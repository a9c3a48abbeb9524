// RowSource: the values of packed weights by rows, for whoever needs values and no codes.
//
// Codes of b bits under scales are one such source (rows_of). A format whose blocks only decode as a whole
// and may span several rows is another: it has no codes to ask for, and is multiplied all the same.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "quant/quantized_tensor.h"

namespace crumb {

/// A matrix [rows, cols] that is stored packed and decoded to float32 when it is asked for. Never changes;
/// thread-safe.
class RowSource {
 public:
  virtual ~RowSource() = default;

  virtual uint64_t rows() const = 0;
  virtual uint64_t cols() const = 0;
  /// What it takes in memory, in bytes.
  virtual uint64_t bytes() const = 0;
  /// Rows that are decoded together: who asks for rows from a multiple of it on, and for a multiple of it,
  /// has none decoded twice. At least 1.
  virtual uint64_t rows_together() const { return 1; }
  /// Fills `out` with rows [first, first + out.size() / cols()), row-major: the same bits whichever rows are
  /// asked for together. Throws Error, which names tensor and place, where the stored bytes are not what was
  /// written. Preconditions: out.size() is a multiple of cols(); those rows are there.
  virtual void decode(uint64_t first, std::span<float> out) const = 0;
};

/// Of codes: what RowDecoder gives, of a stack through all of its matrices. Shares the tensor.
std::shared_ptr<const RowSource> rows_of(std::shared_ptr<const QuantizedTensor> tensor);

/// Elements [first, first + out.size()) of the row-major flattening.
void decode_elements(const RowSource& source, uint64_t first, std::span<float> out);

}  // namespace crumb
