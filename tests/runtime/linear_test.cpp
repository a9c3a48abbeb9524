#include "runtime/linear.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

#include "base/error.h"
#include "tests/support/samples.h"
#include "tests/support/testing.h"

namespace crumb::runtime {
namespace {

constexpr FloatKernel kKernels[] = {FloatKernel::kReference, FloatKernel::kPortable, FloatKernel::kAvx2};

// However n products are added up, the error is at most gamma_n * sum |x||w|, gamma_n = n u / (1 - n u), u =
// 2^-24 (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).
TEST_CASE("every kernel is within the rounding bound of the exact product, for odd shapes") {
  for (const size_t batch : {1, 2, 3, 5, 8}) {
    for (const size_t rows : {1, 2, 3, 4, 7, 13}) {
      for (const size_t cols : {1, 3, 4, 7, 8, 9, 31, 384}) {
        const auto x = testing::normal_values(batch * cols, 1);
        const auto w = testing::normal_values(rows * cols, 2);
        const FloatMatrix matrix(rows, cols, w);
        for (const FloatKernel kernel : kKernels) {
          if (!float_kernel_available(kernel)) continue;
          std::vector<float> y(batch * rows, NAN);
          matrix.multiply_with(kernel, x, batch, y);
          for (size_t n = 0; n < batch; ++n) {
            for (size_t r = 0; r < rows; ++r) {
              double exact = 0;
              double size = 0;
              for (size_t k = 0; k < cols; ++k) {
                const double product = double{x[n * cols + k]} * double{w[r * cols + k]};
                exact += product;
                size += std::fabs(product);
              }
              const double nu = static_cast<double>(cols) * 0x1p-24;
              REQUIRE(std::fabs(y[n * rows + r] - exact) <= nu / (1 - nu) * size);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("the kernel for AVX2 was among those that are compared above") {
  if (!float_kernel_available(FloatKernel::kAvx2)) testing::skip("this processor has no AVX2");
}

TEST_CASE("a row of the product depends on its own row only, bit for bit") {
  constexpr size_t kBatch = 11;
  constexpr size_t kRows = 200;
  constexpr size_t kCols = 1000;  // more rows than a cache block holds
  const auto x = testing::normal_values(kBatch * kCols, 3);
  const auto w = testing::normal_values(kRows * kCols, 4);
  const FloatMatrix matrix(kRows, kCols, std::span<const float>(w));
  std::vector<float> together(kBatch * kRows);
  matrix.multiply(x, kBatch, together);
  for (size_t n = 0; n < kBatch; ++n) {
    std::vector<float> alone(kRows);
    matrix.multiply(std::span(x).subspan(n * kCols, kCols), 1, alone);
    CHECK(std::equal(alone.begin(), alone.end(), together.begin() + static_cast<std::ptrdiff_t>(n * kRows)));
  }
}

TEST_CASE("a matrix without rows, columns or batch") {
  std::vector<float> y(2, 7.0F);
  FloatMatrix(2, 0, std::vector<float>{}).multiply({}, 1, y);
  CHECK(y == std::vector<float>{0, 0});
  FloatMatrix(0, 2, std::vector<float>{}).multiply(y, 1, {});
  FloatMatrix(1, 2, std::vector<float>{1, 2}).multiply({}, 0, {});
}

TEST_CASE("rows are gathered, and wrong sizes refused") {
  const FloatMatrix matrix(2, 3, std::vector<float>{1, 2, 3, 4, 5, 6});
  std::vector<float> row(3);
  matrix.gather_row(1, row);
  CHECK(row == std::vector<float>{4, 5, 6});
  CHECK_THROWS_AS(matrix.gather_row(2, row), crumb::Error);
  CHECK_THROWS_AS(matrix.gather_row(0, std::span(row).first(2)), crumb::Error);
  std::vector<float> y(2);
  CHECK_THROWS_AS(matrix.multiply(std::span(row).first(2), 1, y), crumb::Error);
  CHECK_THROWS_AS(matrix.multiply(row, 1, row), crumb::Error);
  CHECK_THROWS_AS(FloatMatrix(2, 2, std::vector<float>(3)), crumb::Error);
}

}  // namespace
}  // namespace crumb::runtime
