// Products of float32 matrices that lie anywhere in memory: what FloatMatrix and attention run on.
#pragma once

#include <cstddef>

#include "runtime/linear.h"

namespace crumb::runtime {

/// y[n, r] = sum over k of x[n, k] * w[r, k], for n < batch, r < rows, k < cols. Strides count floats from
/// row to row. y overlaps neither x nor w.
struct FloatProduct {
  size_t batch = 0;
  size_t rows = 0;
  size_t cols = 0;
  const float* x = nullptr;
  size_t x_stride = 0;
  const float* w = nullptr;
  size_t w_stride = 0;
  float* y = nullptr;
  size_t y_stride = 0;
};

/// Every kernel computes one output in one order of operations, which depends on `cols` alone: L partial sums
/// (lane l takes every L-th term, from the l-th on), added up in a fixed tree. So blocking, batch and
/// neighbours change no bit. The kernel must be available.
void float_product(FloatKernel kernel, const FloatProduct& product);
/// With best_float_kernel().
void float_product(const FloatProduct& product);

void float_product_portable(const FloatProduct& product);
void float_product_avx2(const FloatProduct& product);

/// How many rows of w to work on before going on to the next rows of x: those that a second-level cache
/// holds.
inline size_t cached_rows(size_t cols, size_t multiple) {
  constexpr size_t kFloats = size_t{256} * 1024 / sizeof(float);
  const size_t rows = kFloats / (cols + 1);
  return rows < multiple ? multiple : rows / multiple * multiple;
}

}  // namespace crumb::runtime
