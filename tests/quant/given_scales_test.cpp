// Codes under given scales: those of the search, where the scales are the search's.
#include "quant/codes/given_scales.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "formats/half.h"
#include "quant/quantizer.h"
#include "tests/support/samples.h"

namespace {

using crumb::GivenScales;
using crumb::QuantizedTensor;
using crumb::QuantSpec;

struct Found {
  std::vector<float> scales, zeros;
  explicit Found(const QuantizedTensor& tensor) {
    const crumb::RowDecoder decoder(tensor.view());
    for (std::uint64_t block = 0; block < tensor.layout.blocks(); ++block) {
      scales.push_back(decoder.scale(block));
      if (tensor.encoding.zero != crumb::ZeroPoint::kNone) zeros.push_back(decoder.zero_point(block));
    }
  }
  GivenScales given() const { return {scales, zeros}; }
};

TEST_CASE("given scales: the scales of a search give the search's bytes, for every format") {
  const std::vector<std::uint64_t> shapes[] = {{1}, {7, 13}, {3, 2, 5}, {1, 64}, {33, 1}};
  for (const crumb::NumberFormat& number : crumb::number_formats()) {
    if (number.scale_only || number.learned) continue;
    for (const char* rest : {":tensor", ":channel", ":group=4:pad", ":group=3:scale=bf16:pad",
                             ":channel:scale=e8m0", ":block=2x3:pad:scale=f16", ":tensor:zero=int",
                             ":channel:zero=float", ":group=4:pad:zero=min", ":channel:search=mse"}) {
      const std::string text = std::string(number.name) + rest;
      if (text.find("zero=") != std::string::npos && !number.has_zero_point()) continue;
      if (text.find("zero=min") != std::string::npos && number.is_signed) continue;
      for (const auto& shape : shapes) {
        CAPTURE(text);
        std::size_t count = 1;
        for (const std::uint64_t size : shape) count *= size;
        std::vector<float> values = crumb::testing::normal_values(count, count + 1);
        if (count > 8) std::fill(values.begin(), values.begin() + 4, 0.0F);  // a group of zeros
        const QuantSpec spec = QuantSpec::parse(text);
        const QuantizedTensor searched = crumb::quantize(spec, values, shape);
        const Found found(searched);
        const QuantizedTensor made = crumb::quantize_with_scales(spec, values, shape, found.given());
        CHECK(made.codes == searched.codes);
        CHECK(made.zeros == searched.zeros);
        CHECK(Found(made).scales == found.scales);
        CHECK(made.spec == searched.spec);
      }
    }
  }
}

TEST_CASE("given scales: the part of a scale in f16 that values are multiples of is a float16 number, too") {
  const auto holds = [](float s) { return crumb::f16_to_float(crumb::float_to_f16(s)) == s; };
  const std::vector<float> drawn = crumb::testing::normal_values(4000, 5);
  for (const auto& [format, halvings] : {std::pair("int4", 0), std::pair("int2h", 1), std::pair("e2m1", 1),
                                         std::pair("e1m2", 1), std::pair("e2m2", 2), std::pair("e2m3", 3)}) {
    const QuantSpec spec = QuantSpec::parse(std::string(format) + ":group=32:scale=f16");
    REQUIRE(crumb::halvings_of_scale(spec) == halvings);
    const float least = std::ldexp(0x1p-24F, halvings);
    for (const float x : drawn) {
      for (const float size : {1.0F, 1e-3F, 1e-4F, 3e-6F, 1e-7F, 1e-9F}) {
        const float ideal = std::fabs(x) * size;
        if (ideal == 0) continue;
        const float stored = crumb::stored_scale(spec, ideal);
        CHECK(stored > 0);
        CHECK(holds(stored));
        CHECK(holds(std::ldexp(stored, -halvings)));
        CHECK(crumb::stored_scale(spec, stored) == stored);
        const float step = std::max(least, std::ldexp(1.0F, std::ilogb(ideal) - 10));
        if (ideal >= least / 2) CHECK(std::fabs(stored - ideal) <= step / 2);  // none between is nearer
        CHECK(crumb::encode_scale(spec, ideal).saturated == (ideal <= least / 2));
      }
    }
  }
}

TEST_CASE("given scales: what cannot be stored is refused") {
  const std::vector<float> x{1, 2, 3, 4};
  const std::vector<std::uint64_t> shape{2, 2};
  const auto refused = [&](const char* text, std::vector<float> scales, const char* word,
                           std::vector<float> zeros = {}) {
    const QuantSpec spec = QuantSpec::parse(text);
    CHECK_THROWS_WITH_AS(crumb::quantize_with_scales(spec, x, shape, {scales, zeros}),
                         doctest::Contains(word), crumb::Error);
  };
  refused("int4:channel", {1}, "1 scale given");
  refused("int4:channel", {1, -1}, "block 1");
  refused("int4:channel", {1, std::numeric_limits<float>::quiet_NaN()}, "block 1");
  refused("int4:channel:scale=e8m0", {1, 3}, "e8m0");
  refused("int4:channel:scale=f16", {1, 0.1F}, "f16");
  refused("int4:channel", {1, 1}, "zero points", {0, 0});
  refused("int4:channel:zero=int", {1, 1}, "zero point of block 1", {0, 0.5F});
  refused("int4:group=3", {1, 1}, "group=3");
  refused("mxfp4", {1}, "block format");
  const std::vector<float> infinite{1, 2, 3, std::numeric_limits<float>::infinity()};
  CHECK_THROWS_WITH_AS(crumb::quantize_with_scales(QuantSpec::parse("int4:tensor"), infinite, shape,
                                                   {std::vector<float>{1}, {}}),
                       doctest::Contains("inf"), crumb::Error);
}

}  // namespace
