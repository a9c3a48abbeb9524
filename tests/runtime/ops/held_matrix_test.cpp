#include "runtime/ops/held_matrix.h"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "quant/quantizer.h"
#include "runtime/reference/packed_kernels.h"
#include "tests/support/samples.h"
#include "tests/support/specs.h"

namespace crumb::runtime {
namespace {

/// y of shape [batch, outputs].
std::vector<float> product(const HeldMatrix& matrix, const std::vector<float>& x, std::size_t batch,
                           int threads = 1) {
  std::vector<float> y(batch * matrix.outputs(), NAN);
  matrix.multiply(
      {.rows = batch, .x = x.data(), .x_stride = matrix.terms(), .y = y.data(), .y_row = matrix.outputs()}, 0,
      threads);
  return y;
}

/// Input 1 of a node whose operator holds it.
std::shared_ptr<const HeldMatrix> held(const Array* floats, const graph::QuantizedConstant* codes,
                                       MatrixOrder axes) {
  const graph::Node node{.name = "n", .op = "MatMul", .inputs = {"x", "w"}, .outputs = {"y"}};
  return HeldMatrix::of({.node = node, .constants = {nullptr, floats}, .packed = codes}, 1, axes);
}

TEST_CASE("codes that stay packed have the reference's bits, for every format, granularity and scale") {
  constexpr std::size_t kRows = 5, kCols = 37, kBatch = 3;
  const std::vector<float> w = testing::normal_values(kRows * kCols, 1);
  const std::vector<float> x = testing::normal_values(kBatch * kCols, 2);
  for (const std::string& text : testing::all_specs()) {
    CAPTURE(text);
    const auto tensor = std::make_shared<const QuantizedTensor>(
        quantize(QuantSpec::parse(text), w, std::vector<std::uint64_t>{kRows, kCols}));
    std::vector<float> expected(kBatch * kRows);
    reference::matrix_matrix(RowDecoder(tensor->view()), x, kBatch, expected);
    // As MatMul has it, whose terms come first, and as Gemm may.
    for (const auto& [axes, order] : {std::pair{MatrixOrder::kTermsOutputs, Ints{1, 0}},
                                      std::pair{MatrixOrder::kOutputsTerms, Ints{0, 1}}}) {
      const graph::QuantizedConstant constant{.tensor = tensor, .axes = order};
      REQUIRE(product(*held(nullptr, &constant, axes), x, kBatch) == expected);
      const Array floats = Array::of(constant.value());
      REQUIRE(product(*held(&floats, nullptr, axes), x, kBatch) == expected);
    }
  }
}

TEST_CASE("codes whose rows are no outputs are decoded once, and give the same") {
  const std::vector<float> w = testing::normal_values(6 * 16, 5), x = testing::normal_values(2 * 6, 6);
  const auto tensor = std::make_shared<const QuantizedTensor>(
      quantize(QuantSpec::parse("int4:channel"), w, std::vector<std::uint64_t>{6, 16}));
  const graph::QuantizedConstant constant{.tensor = tensor, .axes = {0, 1}};  // [terms, outputs]
  const Array floats = Array::of(constant.value());
  CHECK(product(*held(nullptr, &constant, MatrixOrder::kTermsOutputs), x, 2) ==
        product(*held(&floats, nullptr, MatrixOrder::kTermsOutputs), x, 2));
}

TEST_CASE("neither panels, batches nor threads change a bit") {
  std::mt19937_64 engine(7);
  for (int round = 0; round < 30; ++round) {
    const std::size_t rows = 1 + engine() % 900, cols = 1 + engine() % 300, batch = 1 + engine() % 40;
    CAPTURE(rows);
    CAPTURE(cols);
    CAPTURE(batch);
    const std::vector<float> w = testing::normal_values(rows * cols, round);
    const std::vector<float> x = testing::normal_values(batch * cols, round + 100);
    const auto tensor = std::make_shared<const QuantizedTensor>(
        quantize(QuantSpec::parse("int4:group=8:pad"), w, std::vector<std::uint64_t>{rows, cols}));
    const graph::QuantizedConstant constant{.tensor = tensor, .axes = {1, 0}};
    const auto matrix = held(nullptr, &constant, MatrixOrder::kTermsOutputs);
    std::vector<float> expected(batch * rows);
    reference::matrix_matrix(RowDecoder(tensor->view()), x, batch, expected);
    for (const int threads : {1, 2, 3, 7}) CHECK(product(*matrix, x, batch, threads) == expected);
    const std::vector<float> first(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(cols));
    const std::vector<float> alone = product(*matrix, first, 1, 2);
    CHECK(std::equal(alone.begin(), alone.end(), expected.begin()));
  }
}

TEST_CASE("an operator's constant that is no matrix of floats is refused by the node's name") {
  const Array number = Array::of(graph::Tensor::scalar(1.0F)), integers = Array::ints({1, 2});
  CHECK_THROWS_WITH_AS(held(&number, nullptr, MatrixOrder::kTermsOutputs),
                       "node 'n' (MatMul): input 1: expected a matrix, found a number", Error);
  CHECK_THROWS_WITH_AS(held(&integers, nullptr, MatrixOrder::kTermsOutputs),
                       "node 'n' (MatMul): cannot take int64 [2] as input 1", Error);
  CHECK(held(nullptr, nullptr, MatrixOrder::kTermsOutputs) == nullptr);
}

}  // namespace
}  // namespace crumb::runtime
