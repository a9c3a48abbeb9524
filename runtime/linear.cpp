#include "runtime/linear.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/processor.h"
#include "runtime/linear_kernels.h"

namespace crumb::runtime {
namespace {

void check_size(const char* what, size_t expected, size_t found) {
  if (expected == found) return;
  throw Error(std::string(what) + " has " + std::to_string(found) + " values, expected " +
              std::to_string(expected));
}

void float_product_reference(const FloatProduct& p) {
  for (size_t n = 0; n < p.batch; ++n) {
    for (size_t r = 0; r < p.rows; ++r) {
      float sum = 0;
      for (size_t k = 0; k < p.cols; ++k) sum += p.x[n * p.x_stride + k] * p.w[r * p.w_stride + k];
      p.y[n * p.y_stride + r] = sum;
    }
  }
}

}  // namespace

void Matrix::check_multiply(size_t x_size, size_t batch, size_t y_size) const {
  check_size("x", batch * cols(), x_size);
  check_size("y", batch * rows(), y_size);
}

void Matrix::check_gather(size_t row, size_t out_size) const {
  if (row >= rows()) {
    throw Error("row " + std::to_string(row) + " of a matrix with " + std::to_string(rows()) + " rows");
  }
  check_size("out", cols(), out_size);
}

bool float_kernel_available(FloatKernel kernel) {
  if (kernel == FloatKernel::kAvx2) return may_use(Isa::kAvx2);
  return kernel == FloatKernel::kReference || kernel == FloatKernel::kPortable;
}

FloatKernel best_float_kernel() {
  static const FloatKernel best =
      float_kernel_available(FloatKernel::kAvx2) ? FloatKernel::kAvx2 : FloatKernel::kPortable;
  return best;
}

void float_product(FloatKernel kernel, const FloatProduct& product) {
  switch (kernel) {
    case FloatKernel::kReference: return float_product_reference(product);
    case FloatKernel::kPortable: return float_product_portable(product);
    case FloatKernel::kAvx2: return float_product_avx2(product);
  }
}

void float_product(const FloatProduct& product) { float_product(best_float_kernel(), product); }

FloatMatrix::FloatMatrix(size_t rows, size_t cols, std::vector<float> values)
    : rows_(rows), cols_(cols), owned_(std::move(values)), values_(owned_) {
  check_size("a matrix", rows * cols, values_.size());
}

FloatMatrix::FloatMatrix(size_t rows, size_t cols, std::span<const float> values)
    : rows_(rows), cols_(cols), values_(values) {
  check_size("a matrix", rows * cols, values_.size());
}

void FloatMatrix::multiply(std::span<const float> x, size_t batch, std::span<float> y) const {
  multiply_with(best_float_kernel(), x, batch, y);
}

void FloatMatrix::multiply_with(FloatKernel kernel, std::span<const float> x, size_t batch,
                                std::span<float> y) const {
  check_multiply(x.size(), batch, y.size());
  if (!float_kernel_available(kernel)) throw Error("this processor cannot run that kernel");
  float_product(kernel, {.batch = batch,
                         .rows = rows_,
                         .cols = cols_,
                         .x = x.data(),
                         .x_stride = cols_,
                         .w = values_.data(),
                         .w_stride = cols_,
                         .y = y.data(),
                         .y_stride = rows_});
}

void FloatMatrix::gather_row(size_t row, std::span<float> out) const {
  check_gather(row, out.size());
  std::ranges::copy(values_.subspan(row * cols_, cols_), out.begin());
}

}  // namespace crumb::runtime
