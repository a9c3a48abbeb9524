// Multiplies the scales of a quantized tensor, row by row, and keeps its codes.
#pragma once

#include <optional>
#include <span>

#include "quant/quantized_tensor.h"

namespace crumb {

/// Whether every row has scales of its own in a form that takes factors: f32, f16 or bf16, not negative,
/// without minima. Powers of two and e4m3 are too coarse for that.
bool has_row_scales(const Encoding& encoding, const MatrixShape& matrix);

/// Returns the tensor with each row's values times the row's factor, codes and zero points as they are.
/// Scales are rounded once, to what their format has; a scale above 0 stays above 0. Returns nothing where
/// !has_row_scales. Precondition: one factor a row, above 0 and finite.
std::optional<QuantizedTensor> with_scaled_rows(const QuantizedTensor& tensor,
                                                std::span<const double> factors);

}  // namespace crumb
