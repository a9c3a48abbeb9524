// Reference kernels on packed codes, scalar and plain, for every number format, granularity and scale format.
// Every faster kernel is tested against them.
//
// A weight is value(i, k) = (value of code - zero point) * scale, one float32 subtraction and product, as
// docs/crumb_file.md defines it. Products add up as exact/products.h defines it.
#pragma once

#include <span>

#include "quant/quantized_tensor.h"

namespace crumb::runtime::reference {

/// out[rows * cols] = the matrix of weights, row-major.
void dequantize(const RowDecoder& weights, std::span<float> out);

/// y[rows] = W x. Precondition: x.size() == cols, y.size() == rows.
void matrix_vector(const RowDecoder& weights, std::span<const float> x, std::span<float> y);

/// y[batch, rows] = x[batch, cols] * W^T. Precondition: the sizes fit.
void matrix_matrix(const RowDecoder& weights, std::span<const float> x, size_t batch, std::span<float> y);

}  // namespace crumb::runtime::reference
