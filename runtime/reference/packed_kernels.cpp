#include "runtime/reference/packed_kernels.h"

#include <vector>

#include "runtime/exact/products.h"

namespace crumb::runtime::reference {

void dequantize(const RowDecoder& weights, std::span<float> out) {
  const uint64_t cols = weights.cols();
  for (uint64_t row = 0; row < weights.rows(); ++row) {
    for (uint64_t col = 0; col < cols; ++col) out[row * cols + col] = weights.value_ref(row, col);
  }
}

void matrix_vector(const RowDecoder& weights, std::span<const float> x, std::span<float> y) {
  std::vector<float> row(weights.cols());
  for (uint64_t i = 0; i < weights.rows(); ++i) {
    for (uint64_t col = 0; col < weights.cols(); ++col) row[col] = weights.value_ref(i, col);
    y[i] = exact::dot_ref(x.data(), row.data(), row.size());
  }
}

void matrix_matrix(const RowDecoder& weights, std::span<const float> x, size_t batch, std::span<float> y) {
  for (size_t n = 0; n < batch; ++n) {
    matrix_vector(weights, x.subspan(n * weights.cols(), weights.cols()),
                  y.subspan(n * weights.rows(), weights.rows()));
  }
}

}  // namespace crumb::runtime::reference
