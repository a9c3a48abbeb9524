// Codes under fixed scales: those of quantize(), where each value takes its nearest.
#include "quant/codes/fixed_scales.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "quant/quantizer.h"

namespace {

using crumb::FixedScales;
using crumb::QuantizedTensor;
using crumb::QuantSpec;

const std::vector<std::string> kSpecs = {"int4:group=8:pad",
                                         "int3:channel:search=mse",
                                         "uint4:group=16:pad:zero=int",
                                         "uint3:channel:zero=float",
                                         "int2h:group=4:pad:search=lsq",
                                         "ternary:tensor:search=mse",
                                         "binary:channel",
                                         "e2m1:group=8:pad",
                                         "e4m3:channel",
                                         "mxfp4:pad",
                                         "nvfp4:pad",
                                         "mxfp6_e2m3:pad",
                                         "palette3:channel",
                                         "int4:block=2x4:pad",
                                         "int8:channel:round=stochastic=7",
                                         "int4:channel:round=floor"};

std::vector<float> drawn(std::mt19937& random, std::size_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  const float size = std::exp2(static_cast<float>(static_cast<int>(random() % 20) - 12));
  for (float& value : values) value = random() % 23 == 0 ? 0.0F : size * normal(random);
  if (random() % 5 == 0) std::fill_n(values.begin(), count / 2, 0.0F);
  return values;
}

}  // namespace

TEST_CASE("fixed scales: the nearest codes are those of quantize, byte for byte") {
  std::mt19937 random(3);
  int tried = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string& text = kSpecs[static_cast<std::size_t>(i) % kSpecs.size()];
    CAPTURE(text);
    const QuantSpec spec = QuantSpec::parse(text);
    const std::vector<std::uint64_t> shape = {1 + random() % 9, 1 + random() % 70};
    if (spec.misfit(shape)) continue;
    const std::vector<float> values = drawn(random, shape[0] * shape[1]);
    const QuantizedTensor whole = crumb::quantize(spec, values, shape);
    const FixedScales scales(spec, values, shape, "w");
    std::vector<std::uint8_t> codes;
    for (std::uint64_t row = 0; row < shape[0]; ++row)
      for (std::uint64_t column = 0; column < shape[1]; ++column)
        codes.push_back(scales.code(row, column, values[row * shape[1] + column]));
    const QuantizedTensor made = scales.with_codes(codes);
    CHECK(made.codes == whole.codes);
    CHECK(made.scales == whole.scales);
    CHECK(made.zeros == whole.zeros);
    CHECK(made.codebook == whole.codebook);
    CHECK(made.tensor_scales == whole.tensor_scales);
    std::vector<float> meant(values.size());
    crumb::dequantize(whole.view(), meant);
    for (std::size_t at = 0; at < meant.size(); ++at) {
      const float value = scales.value(at / shape[1], at % shape[1], codes[at]);
      const bool is_same = value == meant[at];
      CHECK(is_same);
    }
    ++tried;
  }
  CHECK(tried > 300);
}

TEST_CASE("fixed scales: a run of values has the bits of each by itself") {
  std::mt19937 random(4);
  for (int i = 0; i < 400; ++i) {
    const std::string& text = kSpecs[static_cast<std::size_t>(i) % kSpecs.size()];
    CAPTURE(text);
    const QuantSpec spec = QuantSpec::parse(text);
    const std::vector<std::uint64_t> shape = {1 + random() % 5, 1 + random() % 700};
    if (spec.misfit(shape)) continue;
    FixedScales scales(spec, drawn(random, shape[0] * shape[1]), shape, "w");
    const std::uint64_t row = random() % shape[0], first = random() % shape[1];
    const std::uint64_t block = scales.block_of(row, first);
    std::uint64_t end = first;
    while (end < shape[1] && scales.block_of(row, end) == block) ++end;
    if (scales.may_change() && random() % 3 == 0)
      scales.set_scale(block, scales.scale(block) * (random() % 4 == 0 ? 0 : 0.7F));
    const std::vector<float> x = drawn(random, end - first);  // of another size than the scale is for, too
    std::vector<float> made(x.size() + 1, 7);
    scales.round_run(row, first, x, made.data());
    for (std::uint64_t k = first; k < end; ++k)
      CHECK(std::bit_cast<std::uint32_t>(made[k - first]) ==
            std::bit_cast<std::uint32_t>(scales.value(row, k, scales.code(row, k, x[k - first]))));
    CHECK(made.back() == 7);
  }
}

TEST_CASE("fixed scales: a scale that is set is what the tensor then has") {
  std::mt19937 random(5);
  for (int i = 0; i < 400; ++i) {
    const std::string& text = kSpecs[static_cast<std::size_t>(i) % kSpecs.size()];
    CAPTURE(text);
    const QuantSpec spec = QuantSpec::parse(text);
    const std::vector<std::uint64_t> shape = {2 + random() % 5, 8 + random() % 40};
    if (spec.misfit(shape)) continue;
    const std::vector<float> values = drawn(random, shape[0] * shape[1]);
    FixedScales scales(spec, values, shape, "w");
    if (!scales.may_change()) continue;
    for (std::uint64_t block = 0; block < scales.blocks(); block += 1 + random() % 3)
      scales.set_scale(block, scales.scale(block) * (0.5F + 0.01F * static_cast<float>(random() % 100)));
    std::vector<std::uint8_t> codes(values.size());
    for (std::size_t at = 0; at < codes.size(); ++at)
      codes[at] = scales.code(at / shape[1], at % shape[1], values[at]);
    const QuantizedTensor made = scales.with_codes(codes);
    const crumb::RowDecoder decoder(made.view());
    for (std::uint64_t block = 0; block < scales.blocks(); ++block) {
      const bool is_same = decoder.scale(block) == scales.scale(block);
      CHECK(is_same);
    }
    std::vector<float> decoded(values.size());
    crumb::dequantize(made.view(), decoded);
    for (std::size_t at = 0; at < decoded.size(); ++at) {
      const bool is_same = decoded[at] == scales.value(at / shape[1], at % shape[1], codes[at]);
      CHECK(is_same);
    }
  }
}
