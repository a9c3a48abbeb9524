#include "runtime/fast/fast_matrix.h"

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "quant/codes/code_layout.h"
#include "quant/quantizer.h"
#include "tests/runtime/fast/emulated_squares.h"
#include "tests/support/samples.h"
#include "tests/support/testing.h"

namespace crumb::runtime {
namespace {

std::shared_ptr<const QuantizedTensor> quantized(const std::string& spec, std::size_t outputs,
                                                 std::size_t terms, CodeLayout codes, std::uint64_t seed) {
  const std::vector<std::uint64_t> shape{outputs, terms};
  const std::vector<float> w = testing::normal_values(outputs * terms, seed);
  const QuantizedTensor rows = quantize(QuantSpec::parse(spec), w, shape, {.threads = 1});
  return std::make_shared<const QuantizedTensor>(in_layout(rows.view(), rows.spec, codes, 1));
}

/// By the definition, on integers: what the codes stand for, less zero points, over the unit that makes them
/// whole.
float one_by_definition(const RowDecoder& decoder, const QuantizedTensor& w, std::size_t row, const float* x,
                        float unit) {
  const std::size_t cols = decoder.cols();
  float absmax = 0;
  for (std::size_t k = 0; k < cols; ++k) absmax = std::max(absmax, std::abs(x[k]));
  const float inverse = absmax == 0 ? 0 : 127.0F / absmax;
  float made = 0;
  std::vector<std::uint8_t> codes(cols);
  decoder.codes(row, 0, codes);
  for (std::size_t b = 0; b < w.layout.blocks_per_row; ++b) {
    const std::uint64_t block = row / w.encoding.block_rows * w.layout.blocks_per_row + b;
    std::int64_t sum = 0;
    for (std::size_t k = b * w.encoding.block_cols;
         k < std::min<std::uint64_t>(cols, (b + 1) * w.encoding.block_cols); ++k) {
      const double level =
          (static_cast<double>(decoder.grid().values[codes[k]]) - decoder.zero_point(block)) / unit;
      REQUIRE(level == std::trunc(level));
      sum += static_cast<std::int64_t>(std::nearbyint(x[k] * inverse)) * static_cast<std::int64_t>(level);
    }
    made += static_cast<float>(sum) * (decoder.scale(block) * unit);
  }
  return made * (absmax / 127.0F);
}

struct Spec {
  const char* text;
  float unit;
};
constexpr Spec kSpecs[] = {{"int8:channel", 1},
                           {"int8:group=32:range=full", 1},
                           {"int4:group=32", 1},
                           {"int4:tensor", 1},
                           {"int3:group=64:pad", 1},
                           {"int2:channel", 1},
                           {"int2h:group=32", 0.5F},
                           {"int4h:group=16:pad", 0.5F},
                           {"uint4:group=32:zero=int", 1},
                           {"uint6:channel:zero=int", 1},
                           {"int5:group=8:pad:zero=int", 1},
                           {"ternary", 1},
                           {"binary:group=32", 1},
                           {"mxfp4:pad", 0.5F},
                           {"nvfp4:pad", 0.5F},
                           {"e2m3:channel", 0.125F},
                           {"int7:block=3x12:pad", 1},
                           {"uint1:channel", 1},
                           {"uint7:group=20:pad", 1},
                           {"uint8:channel", 1},
                           {"uint8:group=32:zero=int:pad", 1},
                           {"int8:channel:zero=int", 1},
                           {"int2:group=128:pad", 1},
                           {"int3:group=32:pad", 1},
                           {"binary:group=64:pad", 1}};

TEST_CASE(
    "fast products: by the definition, bit for bit, within the bound, of rows and tiles, threads and "
    "strides") {
  std::mt19937 engine(5);
  for (int round = 0; round < (testing::slow() ? 4000 : 400); ++round) {
    const Spec& spec = kSpecs[static_cast<std::size_t>(round) % std::size(kSpecs)];
    CAPTURE(spec.text);
    // Every seventh has many rows of x; of those, some have terms or rows that are taken in parts.
    const bool has_many = round % 7 == 0, has_parts = round % 35 == 7, has_more_rows = round % 70 == 14;
    const bool is_padded = std::string(spec.text).find("pad") != std::string::npos;
    const std::size_t outputs = 1 + engine() % (has_parts || has_more_rows ? 20 : 50);
    const std::size_t terms = has_parts ? (is_padded ? 513 + engine() % 1200 : 64 * (9 + engine() % 18))
                                        : (is_padded ? 1 + engine() % 200 : 64 * (1 + engine() % 3));
    const std::size_t rows = has_more_rows ? 257 + engine() % 60
                             : has_many    ? kManyByteRows + engine() % (has_parts ? 20 : 140)
                                           : engine() % 6;
    const CodeLayout codes = round % 2 == 0 ? CodeLayout::kRows : CodeLayout::kTiles;
    const auto w = quantized(spec.text, outputs, terms, codes, engine());
    const auto matrix = FastMatrix::of(w);
    REQUIRE(matrix != nullptr);
    const std::size_t stride = terms + engine() % 3;
    std::vector<float> x = testing::normal_values(rows * stride + 1, engine());
    if (rows > 1) std::fill_n(x.begin(), terms, 0.0F);
    if (rows > 2)
      for (std::size_t k = 0; k < terms; ++k) x[2 * stride + k] *= 1e20F;
    const bool turned = engine() % 2 == 0;
    std::vector<float> y(rows * outputs, -1), again(y);
    exact::Products p{.rows = rows,
                      .columns = outputs,
                      .terms = terms,
                      .x = x.data(),
                      .x_stride = stride,
                      .y = y.data(),
                      .y_row = turned ? 1 : outputs,
                      .y_column = turned ? rows : 1};
    REQUIRE(matrix->multiply(p, 1));
    for (const AddSquares squares : {squares_by_amx(), squares_by_emulation(), AddSquares{nullptr}}) {
      std::fill(again.begin(), again.end(), -1.0F);
      p.y = again.data();
      REQUIRE(FastMatrix::of(w, squares)->multiply(p, 3));
      CHECK(y == again);
    }
    const RowDecoder decoder(w->view());
    std::vector<float> values(outputs * terms);
    dequantize(w->view(), values, 1);
    for (std::size_t r = 0; r < rows; ++r) {
      const float* const from = x.data() + r * stride;
      double absmax = 0;
      for (std::size_t k = 0; k < terms; ++k) absmax = std::max<double>(absmax, std::abs(from[k]));
      const double s = absmax / 127;
      for (std::size_t n = 0; n < outputs; ++n) {
        const float made = y[r * p.y_row + n * p.y_column];
        REQUIRE(made == one_by_definition(decoder, *w, n, from, spec.unit));
        double product = 0, weights = 0;
        for (std::size_t k = 0; k < terms; ++k) {
          product += static_cast<double>(from[k]) * values[n * terms + k];
          weights += std::abs(values[n * terms + k]);
        }
        const double bound = s / 2 * weights + (static_cast<double>(w->layout.blocks_per_row) + 4) * 0x1p-23 *
                                                   127.5 * s * weights;
        REQUIRE(std::abs(made - product) <= bound);
      }
    }
  }
}

TEST_CASE("fast products: extremes of both sides do not pass 32 bits") {
  for (const std::size_t terms : {std::size_t{1000}, std::size_t{65536}}) {
    const std::vector<float> x(terms, 1.0F);
    for (const char* spec : {"int8:channel:range=full", "uint7:channel:zero=int", "uint8:channel:zero=int",
                             "int8:channel:zero=int"}) {
      for (const float weight : {-1.0F, 1.0F}) {
        const std::vector<float> w(3 * terms, weight);
        const std::uint64_t shape[] = {3, terms};
        const QuantizedTensor rows = quantize(QuantSpec::parse(spec), w, shape, {.threads = 1});
        for (const CodeLayout codes : {CodeLayout::kRows, CodeLayout::kTiles}) {
          const auto tensor =
              std::make_shared<const QuantizedTensor>(in_layout(rows.view(), rows.spec, codes, 1));
          const auto matrix = FastMatrix::of(tensor);
          REQUIRE(matrix != nullptr);
          std::vector<float> y(3), values(3 * terms);
          REQUIRE(matrix->multiply({.rows = 1,
                                    .columns = 3,
                                    .terms = terms,
                                    .x = x.data(),
                                    .x_stride = terms,
                                    .y = y.data(),
                                    .y_row = 3},
                                   1));
          dequantize(tensor->view(), values, 1);
          for (const float sum : y)
            CHECK(sum == doctest::Approx(values[0] * static_cast<double>(terms)).epsilon(1e-5));
        }
      }
    }
  }
}

TEST_CASE("fast products: what bytes cannot stand for is left to others") {
  const auto w = quantized("int4:group=32", 16, 64, CodeLayout::kTiles, 1);
  const auto matrix = FastMatrix::of(w);
  REQUIRE(matrix != nullptr);
  for (const float odd :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 1e-38F}) {
    std::vector<float> x(2 * 64, 0.0F), y(2 * 16, 7.0F);
    x[64 + 5] = odd;
    CHECK_FALSE(matrix->multiply(
        {.rows = 2, .columns = 16, .terms = 64, .x = x.data(), .x_stride = 64, .y = y.data(), .y_row = 16},
        1));
    CHECK(y == std::vector<float>(2 * 16, 7.0F));
  }
  for (const char* spec :
       {"uint4:group=32:zero=float", "nf4:group=32", "palette4:tensor", "e5m2:channel", "int4:group=6:pad"}) {
    CAPTURE(spec);
    CHECK(FastMatrix::of(quantized(spec, 4, 64, CodeLayout::kRows, 2)) == nullptr);
  }
}

}  // namespace
}  // namespace crumb::runtime
