#include "runtime/packed_matrix.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "quant/quantizer.h"
#include "runtime/reference/packed_kernels.h"
#include "tests/support/samples.h"

namespace crumb::runtime {
namespace {

/// Specs over every number format and block format, granularity, scale format and zero point kind.
std::vector<std::string> all_specs() {
  std::vector<std::string> specs;
  for (const NumberFormat& format : number_formats()) {
    if (format.scale_only) continue;
    const std::string name(format.name);
    for (const char* granularity : {":tensor", ":channel", ":group=8:pad", ":block=2x5:pad"}) {
      for (const ScaleFormatRow& scale : kScaleFormats) {
        specs.push_back(name + granularity + ":scale=" + std::string(scale.name));
      }
    }
    if (!format.has_zero_point()) continue;
    for (const char* zero : {":group=8:pad:zero=int", ":channel:zero=float"}) specs.push_back(name + zero);
  }
  for (const BlockFormat& format : kBlockFormats) specs.push_back(std::string(format.name) + ":pad");
  return specs;
}

TEST_CASE("a packed matrix agrees with the reference kernels for every format, granularity and scale") {
  constexpr size_t kRows = 5, kCols = 37, kBatch = 3;
  const std::vector<float> w = testing::normal_values(kRows * kCols, 1);
  const std::vector<float> x = testing::normal_values(kBatch * kCols, 2);
  for (const std::string& text : all_specs()) {
    CAPTURE(text);
    const QuantizedTensor tensor = quantize(QuantSpec::parse(text), w, std::vector<uint64_t>{kRows, kCols});
    const PackedMatrix matrix(tensor.view());
    const RowDecoder decoder(tensor.view());

    std::vector<float> values(kRows * kCols), row(kCols);
    reference::dequantize(decoder, values);
    for (size_t r = 0; r < kRows; ++r) {
      matrix.gather_row(r, row);
      for (size_t k = 0; k < kCols; ++k) REQUIRE(row[k] == values[r * kCols + k]);
    }

    std::vector<float> expected(kBatch * kRows), found(kBatch * kRows, NAN);
    reference::matrix_matrix(decoder, x, kBatch, expected);
    matrix.multiply(x, kBatch, found);
    // The same products in another order: twice Higham's gamma_n times sum |x||w|.
    const double bound = 2 * kCols * 0x1p-24 / (1 - kCols * 0x1p-24);
    for (size_t n = 0; n < kBatch; ++n) {
      for (size_t r = 0; r < kRows; ++r) {
        double size = 0;
        for (size_t k = 0; k < kCols; ++k) {
          size += std::fabs(double{x[n * kCols + k]} * double{values[r * kCols + k]});
        }
        REQUIRE(std::fabs(double{found[n * kRows + r]} - double{expected[n * kRows + r]}) <= bound * size);
      }
    }
  }
}

TEST_CASE(
    "a packed matrix multiplies as the dequantized one does, bit for bit, whatever its panels and batches") {
  // More rows than one panel of decoded weights holds.
  constexpr size_t kRows = 700, kCols = 200, kBatch = 5;
  const std::vector<float> w = testing::normal_values(kRows * kCols, 3);
  const std::vector<float> x = testing::normal_values(kBatch * kCols, 4);
  const QuantizedTensor tensor =
      quantize(QuantSpec::parse("int4:group=8"), w, std::vector<uint64_t>{kRows, kCols});
  std::vector<float> values(kRows * kCols);
  dequantize(tensor.view(), values);
  const FloatMatrix dense(kRows, kCols, std::span<const float>(values));
  const PackedMatrix packed(tensor.view());
  std::vector<float> expected(kBatch * kRows), found(kBatch * kRows);
  dense.multiply(x, kBatch, expected);
  packed.multiply(x, kBatch, found);
  CHECK(found == expected);
  packed.multiply(std::span(x).first(kCols), 1, std::span(found).first(kRows));
  CHECK(std::equal(found.begin(), found.begin() + kRows, expected.begin()));
}

TEST_CASE("a matrix-vector product is a batch of one") {
  const std::vector<float> w = testing::normal_values(6 * 16, 5), x = testing::normal_values(16, 6);
  const QuantizedTensor tensor = quantize(QuantSpec::parse("mxfp4:pad"), w, std::vector<uint64_t>{6, 16});
  const RowDecoder decoder(tensor.view());
  std::vector<float> vector(6), matrix(6);
  reference::matrix_vector(decoder, x, vector);
  reference::matrix_matrix(decoder, x, 1, matrix);
  CHECK(vector == matrix);
}

}  // namespace
}  // namespace crumb::runtime
