#include "quant/codes/above_minimum.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "formats/number/packing.h"
#include "quant/loops/loops.h"
#include "quant/quantizer.h"
#include "tests/support/samples.h"

namespace crumb {
namespace {

std::vector<float> drawn_values(std::mt19937_64& random, std::size_t count) {
  std::vector<float> x = testing::normal_values(count, random());
  const float shift = static_cast<float>(static_cast<int>(random() % 9) - 4);
  for (float& value : x) value = random() % 11 == 0 ? 0 : value + shift;
  if (random() % 5 == 0) std::ranges::fill(x, shift);
  return x;
}

TEST_CASE("zero=min: codes are those of the scalar twin, values q * s + m, and nothing is clipped") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 3000; ++round) {
    const int bits = 1 + static_cast<int>(random() % 8);
    const char* const scale = std::array{"f32", "f16", "bf16"}[random() % 3];
    const std::string text = "uint" + std::to_string(bits) + ":group=8:zero=min:scale=" + std::string(scale);
    const std::uint64_t rows = 1 + random() % 3, cols = 8 * (1 + random() % 4);
    const std::vector<float> x = drawn_values(random, rows * cols);
    const QuantSpec spec = QuantSpec::parse(text);
    const QuantizedTensor tensor = quantize(spec, x, std::vector<std::uint64_t>{rows, cols});
    CHECK(tensor.encoding.zero == ZeroPoint::kMinimum);
    const RowDecoder decoder(tensor.view());
    std::vector<float> values(x.size());
    dequantize(tensor.view(), values);
    std::vector<std::uint8_t> codes(cols);
    for (std::uint64_t row = 0; row < rows; ++row) {
      decoder.codes(row, 0, codes);
      for (std::uint64_t col = 0; col < cols; ++col) {
        const std::uint64_t block = row * tensor.layout.blocks_per_row + col / 8, at = row * cols + col;
        const float s = decoder.scale(block), m = decoder.zero_point(block);
        CHECK(codes[col] == encode_above_minimum_ref(decoder.grid(), x[at], s, m, at));
        const float product = static_cast<float>(codes[col]) * s;
        const float value = product + m;
        CHECK(values[at] == value);
        CHECK(decoder.value_ref(row, col) == value);
        // Half a step, and what rounding of scale and minimum to their formats moves the ends by.
        const float most = 0.5F * s + 0.02F * (std::abs(m) + s * static_cast<float>(1 << bits));
        CHECK(std::abs(value - x[at]) <= most);
      }
    }
  }
}

TEST_CASE("zero=min: the range is that of the values, and of one value nothing is lost") {
  const std::vector<float> x = {3, 3.5F, 4, 4.5F, 5, 6, 7, 10.5F};
  const std::vector<std::uint64_t> shape{1, 8};
  const QuantizedTensor tensor = quantize(QuantSpec::parse("uint4:group=8:zero=min"), x, shape);
  const RowDecoder decoder(tensor.view());
  CHECK(decoder.scale(0) == 0.5F);
  CHECK(decoder.zero_point(0) == 3);
  std::vector<float> values(8);
  dequantize(tensor.view(), values);
  CHECK(values == x);

  const std::vector<float> same(8, -2.5F);
  const QuantizedTensor flat = quantize(QuantSpec::parse("uint4:group=8:zero=min"), same, shape);
  CHECK(RowDecoder(flat.view()).scale(0) == 0);
  CHECK(flat.saturated_scales == 0);
  dequantize(flat.view(), values);
  CHECK(values == same);

  const std::vector<float> zeros(8, 0.0F);
  dequantize(quantize(QuantSpec::parse("uint4:group=8:zero=min"), zeros, shape).view(), values);
  CHECK(values == zeros);
}

TEST_CASE("zero=min: a search by squared error finds no worse than the whole range") {
  std::mt19937_64 random(9);
  const std::vector<std::uint64_t> shape{4, 64};
  int better = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<float> x = testing::normal_values(256, random());
    for (float& value : x) value = value * value * value;
    const auto error_of = [&](const char* text) {
      std::vector<float> values(x.size());
      dequantize(quantize(QuantSpec::parse(text), x, shape).view(), values);
      double sum = 0;
      for (std::size_t i = 0; i < x.size(); ++i) sum += std::pow(static_cast<double>(values[i] - x[i]), 2);
      return sum;
    };
    const double plain = error_of("uint2:group=64:zero=min"),
                 searched = error_of("uint2:group=64:zero=min:search=mse");
    CHECK(searched <= plain * (1 + 1e-6));
    better += searched < plain * 0.9 ? 1 : 0;
  }
  CHECK(better > 150);
}

}  // namespace
}  // namespace crumb
