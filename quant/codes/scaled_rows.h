// A tensor's codes under scales that are multiplied, row by row.
#pragma once

#include <optional>
#include <span>

#include "quant/quantized_tensor.h"

namespace crumb {

/// Whether every row has scales of its own, in a form that takes factors: f32, f16 or bf16, not negative, without minima. Powers of two
/// and e4m3 are too coarse for that.
bool has_row_scales(const Encoding& encoding, const MatrixShape& matrix);

/// Each row's values times its factor, codes and zero points as they are: scales are rounded once, to what their format has; one
/// that is above 0 stays so. Nothing where !has_row_scales. Precondition: a factor a row, above 0 and finite.
std::optional<QuantizedTensor> with_scaled_rows(const QuantizedTensor& tensor,
                                                std::span<const double> factors);

}  // namespace crumb
