// Scales from values seen: each search against its definition, over one batch and many.
#include "graph/quantize/statistics.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "quant/quantized_tensor.h"
#include "quant/quantizer.h"

namespace crumb::graph {
namespace {

std::vector<float> normal(std::size_t count, unsigned seed, float shift = 0) {
  std::mt19937 random(seed);
  std::normal_distribution<float> distribution(shift, 1);
  std::vector<float> values(count);
  for (float& value : values) value = distribution(random);
  return values;
}

ScaleAndZero fit(const std::string& spec, std::span<const float> values, std::size_t piece) {
  EdgeStatistics seen(QuantSpec::parse_activations(spec));
  for (std::size_t begin = 0; begin < values.size(); begin += piece) {
    seen.add(values.subspan(begin, std::min(piece, values.size() - begin)));
  }
  return seen.fit();
}

/// What a tensor of these values would get.
ScaleAndZero of_tensor(const std::string& spec, std::span<const float> values) {
  const std::vector<std::uint64_t> shape{values.size()};
  const QuantizedTensor tensor = quantize(QuantSpec::parse_activations(spec), values, shape);
  const RowDecoder decoder(tensor.view());
  return {decoder.scale(0), decoder.zero_point(0)};
}

const char* const kSpecs[] = {"int8",
                              "uint8",
                              "uint4:zero=int",
                              "int8:scale=e8m0:search=mse",
                              "int4:search=mse",
                              "uint8:search=mse:zero=int",
                              "int8:search=percentile=99.9",
                              "uint6:search=percentile=99:zero=float",
                              "int2h:search=mse",
                              "e4m3fn",
                              "e2m1:search=mse",
                              "int3:range=full:round=floor",
                              "binary"};

TEST_CASE("statistics: the scale of values seen in any pieces is that of a tensor that holds them") {
  for (const char* spec : kSpecs) {
    for (const std::size_t count : {1, 2, 7, 1000, 4097}) {
      CAPTURE(spec);
      CAPTURE(count);
      const std::vector<float> values = normal(count, static_cast<unsigned>(count), 0.5F);
      const ScaleAndZero expected = of_tensor(spec, values);
      for (const std::size_t piece : {std::size_t{1}, std::size_t{13}, count}) {
        const ScaleAndZero found = fit(spec, values, piece);
        CHECK(found.scale == expected.scale);
        CHECK(found.zero_point == expected.zero_point);
      }
    }
  }
}

TEST_CASE("statistics: a scale that is a power of two is the least that covers what was seen") {
  for (const char* spec :
       {"int4", "uint8:zero=int", "e2m1", "int8:search=percentile=99", "int6:search=ema"}) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      CAPTURE(spec);
      CAPTURE(seed);
      std::vector<float> values = normal(200, seed, 0.3F);
      for (float& value : values) value *= static_cast<float>(seed + 1);
      const ScaleAndZero exact = fit(spec, values, 50),
                         found = fit(std::string(spec) + ":scale=e8m0", values, 50);
      CHECK(found.scale >= exact.scale);
      CHECK(found.scale < 2 * exact.scale);
      CHECK(std::exp2(std::round(std::log2(found.scale))) == found.scale);
      CHECK(found.zero_point == exact.zero_point);
    }
  }
  CHECK(fit("int4:scale=e8m0", std::vector<float>{14}, 1).scale == 2);  // 14 / 7: a power of two already
}

TEST_CASE("statistics: what rounds to the largest value is not cut off") {
  const QuantSpec e2m1 = QuantSpec::parse_activations("e2m1");
  for (unsigned seed = 0; seed < 200; ++seed) {
    const float most = std::fabs(normal(1, seed)[0]);
    const float scale = scale_for(e2m1, most, most).scale;
    CHECK_FALSE(saturates(e2m1, scale, 0, most));
    CHECK_FALSE(saturates(e2m1, scale, 0, -6.9F * scale));  // 6 and what would be 8 lie 2 apart: half is 1
    CHECK(saturates(e2m1, scale, 0, 7.1F * scale));
  }
}

TEST_CASE("statistics: more values than the sample holds") {
  const std::size_t count = 3 * EdgeStatistics::kSample + 17;
  std::vector<float> values = normal(count, 5);
  values[count / 3] = 60;  // one outlier
  std::vector<float> sizes = values;
  for (float& value : sizes) value = std::fabs(value);
  std::ranges::sort(sizes);
  for (const double p : {50.0, 99.0, 99.9, 99.999}) {
    const auto place = static_cast<std::size_t>(std::floor(p / 100 * static_cast<double>(count) + 0.5)) - 1;
    const float exact = sizes[place] / 127;
    const ScaleAndZero found = fit("int8:search=percentile=" + std::to_string(p), values, 100000);
    CHECK(found.scale >= exact);
    CHECK(found.scale <= exact * 1.004F);
  }
  CHECK(fit("int8", values, 4096).scale == 60.0F / 127);
  // A sample that a hash chooses finds what all values find, or a factor beside it, whatever the pieces.
  const float mse = fit("int4:search=mse", values, 100000).scale;
  CHECK(mse == fit("int4:search=mse", values, 777).scale);
  const float best = of_tensor("int4:search=mse", values).scale;
  CHECK(std::fabs(mse - best) <= 0.021F * 60 / 7);

  std::ranges::sort(values);
  const ScaleAndZero both = fit("uint8:search=percentile=99:zero=int", values, 100000);
  const auto at = [&](double p) {
    return values[static_cast<std::size_t>(std::floor(p / 100 * static_cast<double>(count) + 0.5)) - 1];
  };
  CHECK(both.scale == doctest::Approx((at(99) - at(1)) / 255).epsilon(0.005));
}

TEST_CASE("statistics: the moving average starts at the first batch and takes a tenth of each next one") {
  EdgeStatistics seen(QuantSpec::parse_activations("int8:search=ema"));
  for (const float most : {1.460914F, -1.962857F, 2.461242F}) seen.add(std::vector<float>{0.1F, most, -0.2F});
  // brevitas: 1.460914, 1.5111084, 1.6061218
  CHECK(seen.fit().scale == doctest::Approx(1.6061218 / 127).epsilon(1e-6));
  CHECK(seen.greatest() == 2.461242F);
  CHECK(seen.least() == -1.962857F);

  EdgeStatistics shifted(QuantSpec::parse_activations("uint8:search=ema:zero=int"));
  shifted.add(std::vector<float>{-1, 3});
  shifted.add(std::vector<float>{-2, 1});
  const ScaleAndZero found = shifted.fit();
  CHECK(found.scale == doctest::Approx((2.8 + 1.1) / 255).epsilon(1e-5));
  CHECK(found.zero_point == std::nearbyint(1.1F / found.scale));
}

TEST_CASE("statistics: nothing, zeros, and what is not finite") {
  EdgeStatistics seen(QuantSpec::parse_activations("int8:search=percentile=99"));
  CHECK(seen.fit().scale == 0);
  seen.add(std::vector<float>{});
  seen.add(std::vector<float>{0, 0, -0.0F});
  CHECK(seen.fit().scale == 0);
  seen.add(std::vector<float>{NAN, INFINITY, 2, -INFINITY});
  CHECK(seen.not_finite() == 3);
  CHECK(seen.count() == 4);
  CHECK(seen.greatest() == 2);
}

TEST_CASE("statistics: what is cut off") {
  const auto cut = [](const char* spec, float zero, float x) {
    return saturates(QuantSpec::parse_activations(spec), 0.5F, zero, x);
  };
  CHECK_FALSE(cut("int8", 0, 63.5F));
  CHECK_FALSE(cut("int8", 0, 63.7F));
  CHECK(cut("int8", 0, 63.8F));
  CHECK(cut("int8", 0, -63.8F));
  CHECK_FALSE(cut("int8:range=full", 0, -64));
  CHECK(cut("uint8", 0, -0.3F));
  CHECK_FALSE(cut("uint8", 0, -0.2F));
  CHECK_FALSE(cut("uint8:zero=int", 10, -5));
  CHECK(cut("uint8:zero=int", 10, -5.3F));
  CHECK(cut("int2h", 0, 1.1F));
  CHECK_FALSE(cut("int2h", 0, 0.9F));
  CHECK(cut("e4m3fn", 0, 232));
  CHECK_FALSE(cut("e4m3fn", 0, 231));
  CHECK_FALSE(cut("binary", 0, 1e30F));
}

}  // namespace
}  // namespace crumb::graph
