// A weight matrix that stays packed: rows are decoded when they are needed.
#pragma once

#include <optional>

#include "quant/packed_tensor.h"
#include "quant/quantized_tensor.h"
#include "runtime/linear.h"

namespace crumb::runtime {

/// Codes of any number format, granularity and scale format. multiply() decodes a panel of rows at a time and
/// multiplies it as FloatMatrix would, so its answers are those of the dequantized matrix, bit for bit;
/// memory stays that of the codes.
class PackedMatrix final : public Matrix {
 public:
  /// Keeps the tensor's bytes; the CrumbFile they lie in must outlive the matrix.
  explicit PackedMatrix(LoadedTensor tensor);
  /// Borrows the bytes: what the view points to must outlive the matrix.
  explicit PackedMatrix(const QuantizedView& tensor);

  size_t rows() const override { return decoder_.rows(); }
  size_t cols() const override { return decoder_.cols(); }
  void multiply(std::span<const float> x, size_t batch, std::span<float> y) const override;
  void gather_row(size_t row, std::span<float> out) const override;

 private:
  std::optional<LoadedTensor> tensor_;  ///< nothing where the bytes are borrowed
  RowDecoder decoder_;
};

}  // namespace crumb::runtime
