// Scales and how they are found: the contract's absmax, the block formats' rules, percentile, mse by
// exhaustion, least squares at the Gaussian optimum, zero points; all recomputed here in float32 from the
// design.
#include "quant/search/scale_search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "quant/distortion.h"
#include "quant/quantizer.h"
#include "tests/quant/quantized_oracle.h"
#include "tests/support/capture_copy.h"

using crumb::QuantizedTensor;
using crumb::QuantSpec;
using crumb::testing::normal_values;
using crumb::testing::oracle_encode_scale;
using crumb::testing::oracle_scale;
using crumb::testing::Shape;

namespace {

QuantizedTensor quantize(const std::string& text, const std::vector<float>& x, const Shape& shape) {
  return crumb::quantize(QuantSpec::parse(text), x, shape, {.threads = 1});
}

/// The stored pattern of block `b`'s scale.
uint32_t pattern(const QuantizedTensor& t, uint64_t b) {
  return crumb::testing::read_word(t.scales, b,
                                   static_cast<uint64_t>(crumb::scale_format_row(t.encoding.scale).bytes));
}

float absmax(std::span<const float> x) {
  float most = 0;
  for (const float v : x) most = std::max(most, std::fabs(v));
  return most;
}

double squared_error(const std::vector<float>& x, const QuantizedTensor& t) {
  std::vector<float> y(x.size());
  crumb::dequantize(t.view(), y, 1);
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i)
    sum += std::pow(static_cast<double>(x[i]) - static_cast<double>(y[i]), 2);
  return sum;
}

/// Mean squared error of one tensor under one spec.
double mse(const std::string& text, const std::vector<float>& x) {
  return squared_error(x, quantize(text, x, {x.size()})) / static_cast<double>(x.size());
}

}  // namespace

TEST_CASE("absmax: one division by the largest value, one rounding to the scale format") {
  const std::pair<const char*, float> largest[] = {
      {"int4", 7.0F},     {"int4:range=full", 8.0F}, {"int2h", 1.5F},
      {"int8", 127.0F},   {"uint4", 15.0F},          {"uint4:range=narrow", 14.0F},
      {"ternary", 1.0F},  {"binary", 1.0F},          {"e2m1", 6.0F},
      {"e4m3fn", 448.0F}, {"e4m3", 480.0F},          {"nf4", 1.0F},
      {"int3h", 3.5F},    {"palette3", 1.0F},        {"e1m2", 3.5F}};
  for (const float size : {1.0F, 3e-6F, 5e-9F, 1e5F, 3e-40F}) {
    std::vector<float> x = normal_values(96, 4);
    for (float& v : x) v *= size;
    for (const auto& [format, most] : largest) {
      for (const crumb::ScaleFormatRow& row : crumb::kScaleFormats) {
        const std::string text = std::string(format) + ":group=32:scale=" + std::string(row.name);
        CAPTURE(text);
        CAPTURE(size);
        const QuantizedTensor t = quantize(text, x, {3, 32});
        for (uint64_t b = 0; b < 3; ++b) {
          float ideal = absmax(std::span(x).subspan(b * 32, 32)) / most;
          const bool halves =
              std::string_view("int2h int3h e2m1 e1m2").find(format) != std::string_view::npos;
          if (row.name == "f16" && halves && ideal < 0x1p-13F)  // half of it is a float16 number, too
            ideal = std::max(std::nearbyint(ideal * 0x1p23F), 1.0F) * 0x1p-23F;
          CHECK(pattern(t, b) == oracle_encode_scale(row.name, ideal));
        }
      }
    }
  }
}

TEST_CASE("absmax: blocks of rows and columns take the values inside them") {
  const std::vector<float> x = normal_values(9 * 20, 8);
  const QuantizedTensor t = quantize("int4:block=4x8:pad", x, {9, 20});
  REQUIRE(t.layout.blocks() == 9);
  for (uint64_t b = 0; b < 9; ++b) {
    float most = 0;
    for (uint64_t r = b / 3 * 4; r < std::min<uint64_t>(b / 3 * 4 + 4, 9); ++r) {
      for (uint64_t c = b % 3 * 8; c < std::min<uint64_t>(b % 3 * 8 + 8, 20); ++c) {
        most = std::max(most, std::fabs(x[r * 20 + c]));
      }
    }
    CHECK(pattern(t, b) == oracle_encode_scale("f16", most / 7));
  }
}

TEST_CASE("mx: the scale is a power of two by the largest element's exponent") {
  const std::pair<const char*, int> emax[] = {{"mxfp4", 2},      {"mxfp6_e2m3", 2},  {"mxfp6_e3m2", 4},
                                              {"mxfp8_e4m3", 8}, {"mxfp8_e5m2", 15}, {"mxint8", 0}};
  for (const auto& [name, exponent] : emax) {
    for (const float most : {1.0F, 1.99F, 2.0F, 0.7F, 6.1F, 1e-30F, 1e30F, 0x1p-126F, 1e-44F}) {
      CAPTURE_COPY(name);
      CAPTURE(most);
      std::vector<float> x(32, most / 3);
      x[17] = -most;
      const QuantizedTensor t = quantize(name, x, {32});
      const int byte = std::clamp(
          static_cast<int>(std::floor(std::log2(static_cast<double>(most)))) - exponent + 127, 0, 254);
      CHECK(pattern(t, 0) == static_cast<uint32_t>(byte));
    }
  }
  // OCP MXINT8: elements are code * 2^-6; a block maximum of 1.25 is held exactly (a peer saturates it).
  std::vector<float> x(32, 0.0F);
  x[0] = -1.25F;
  x[1] = 1.984375F;
  x[2] = 0.015625F;
  std::vector<float> y(32);
  crumb::dequantize(quantize("mxint8", x, {32}).view(), y, 1);
  CHECK(y == x);
}

TEST_CASE("nvfp4: a tensor scale, block scales in e4m3, one product") {
  for (const float size : {1.0F, 1e-6F, 1e8F, 1e-38F}) {
    CAPTURE(size);
    std::vector<float> x = normal_values(8 * 48, 12);
    for (size_t i = 0; i < x.size(); ++i) x[i] *= size * (i / 16 % 5 == 0 ? 1e-4F : 1.0F);
    std::fill(x.begin() + 32, x.begin() + 48, 0.0F);
    const QuantizedTensor t = quantize("nvfp4", x, {8, 48});
    const float g = absmax(x) / 2688;
    CHECK(t.tensor_scales == std::vector{g});
    for (uint64_t b = 0; b < 24; ++b) {
      const float most = absmax(std::span(x).subspan(b * 16, 16));
      const float ideal = most / 6 / g;
      CHECK(pattern(t, b) == (most == 0 ? 0 : oracle_encode_scale("e4m3", ideal)));
      const float effective = oracle_scale("e4m3", pattern(t, b)) * g;
      CHECK(crumb::RowDecoder(t.view()).scale(b) == effective);
    }
  }
  const std::vector<float> zeros(32, 0.0F);
  std::vector<float> y(32, 1.0F);
  crumb::dequantize(quantize("nvfp4", zeros, {2, 16}).view(), y, 1);
  CHECK(y == zeros);
}

TEST_CASE("zero points: the range is widened to zero, s and z follow from it") {
  struct Row {
    float low, high;
  };
  struct Codes {
    const char* name;
    int lo, hi;
  };
  for (const auto& [low, high] : {Row{-1, 2}, Row{0.5F, 2}, Row{-3, -0.25F}, Row{-0.001F, 5}}) {
    std::vector<float> x(40);
    for (size_t i = 0; i < x.size(); ++i) x[i] = low + (high - low) * static_cast<float>(i) / 39;
    x.back() = high;
    const float least = std::min(low, 0.0F), most = std::max(high, 0.0F);
    for (const auto& [name, lo, hi] : {Codes{"uint4", 0, 15},
                                       {"uint8", 0, 255},
                                       {"int4", -7, 7},
                                       {"int4:range=full", -8, 7},
                                       {"uint1", 0, 1}}) {
      CAPTURE_COPY(name);
      CAPTURE_COPY(low);
      const QuantizedTensor t = quantize(std::string(name) + ":tensor:zero=int", x, {40});
      const float s = (most - least) / static_cast<float>(hi - lo);
      CHECK(crumb::RowDecoder(t.view()).scale(0) == s);
      const float z = std::clamp(crumb::testing::oracle_round(static_cast<float>(lo) - least / s),
                                 static_cast<float>(lo), static_cast<float>(hi));
      CHECK(crumb::RowDecoder(t.view()).zero_point(0) == z);
      const QuantizedTensor f = quantize(std::string(name) + ":tensor:zero=float", x, {40});
      CHECK(crumb::RowDecoder(f.view()).zero_point(0) == static_cast<float>(lo) - least / s);
      // In f16 beside f16 scales, from the scale as stored.
      const QuantizedTensor h = quantize(std::string(name) + ":group=40:zero=float", x, {40});
      const float hs = oracle_scale("f16", oracle_encode_scale("f16", s));
      const float ideal = static_cast<float>(lo) - least / hs;
      const float found = crumb::RowDecoder(h.view()).zero_point(0);
      if (ideal != 0)
        CHECK(std::fabs(found) == oracle_scale("f16", oracle_encode_scale("f16", std::fabs(ideal))));
      if (ideal == 0) CHECK(found == 0);
    }
  }
}

TEST_CASE("zero points: a range as wide as float32 still has a scale that covers it") {
  const float most = 0.9F * std::numeric_limits<float>::max();
  const std::vector<float> x{-most, most, 0, most / 2};
  std::vector<float> y(4);
  for (const char* text :
       {"uint8:tensor:zero=int", "uint8:tensor:zero=float", "int8:tensor:zero=int:search=mse"}) {
    CAPTURE(text);
    crumb::dequantize(quantize(text, x, {4}).view(), y, 1);
    for (size_t i = 0; i < 4; ++i) {
      CAPTURE(y[i]);
      CHECK(std::fabs(static_cast<double>(y[i]) - static_cast<double>(x[i])) <
            0.01 * static_cast<double>(most));
    }
  }
}

TEST_CASE("percentile: the value at position floor(P/100 n + 0.5) of |x|") {
  std::vector<float> x(1000);
  for (int i = 1; i <= 1000; ++i)
    x[static_cast<size_t>(i - 1)] = ((i - 1) % 3 == 0 ? -1.0F : 1.0F) * static_cast<float>(i) / 1000;
  std::reverse(x.begin(), x.begin() + 700);
  const std::pair<const char*, float> rows[] = {{"99.9", 0.999F}, {"99", 0.99F}, {"95", 0.95F},
                                                {"50", 0.5F},     {"100", 1.0F}, {"0.01", 0.001F}};
  for (const auto& [p, value] : rows) {
    CAPTURE_COPY(p);
    const QuantizedTensor t = quantize("int8:tensor:search=percentile=" + std::string(p), x, {1000});
    CHECK(crumb::RowDecoder(t.view()).scale(0) == value / 127);
  }
  CHECK(crumb::RowDecoder(quantize("int8:tensor:search=percentile", x, {1000}).view()).scale(0) ==
        0.999F / 127);
  // With a zero point: positions of P and 100 - P of x itself. P = 99.999 covers -1 .. 0.999.
  const QuantizedTensor t = quantize("uint8:tensor:zero=int:search=percentile=99.999", x, {1000});
  CHECK(crumb::RowDecoder(t.view()).scale(0) == doctest::Approx(1.999 / 255).epsilon(1e-6));
  // Where the percentile is zero, the maximum.
  std::vector<float> sparse(100, 0.0F);
  sparse[5] = 3;
  CHECK(crumb::RowDecoder(quantize("int4:tensor:search=percentile=90", sparse, {100}).view()).scale(0) ==
        3.0F / 7);
}

TEST_CASE("mse: the best of 36 factors, by exhaustion") {
  // Recomputed with the contract's codes and a double sum; ties to the larger factor.
  for (const auto& [name, most] : {std::pair{"int4", 7.0F},
                                   {"int2h", 1.5F},
                                   {"int3", 3.0F},
                                   {"e2m1", 6.0F},
                                   {"e3m2", 28.0F},
                                   {"binary", 1.0F},
                                   {"ternary", 1.0F},
                                   {"nf4", 1.0F}}) {
    for (const char* scale : {"f32", "f16", "e8m0"}) {
      for (uint64_t seed = 0; seed < 8; ++seed) {
        CAPTURE_COPY(name);
        CAPTURE(scale);
        CAPTURE(seed);
        std::vector<float> x = normal_values(61, seed + 40);
        if (seed % 2 == 1) x[7] *= 6;
        if (seed >= 4) {  // a power of two is the ideal scale
          for (float& v : x) v = std::clamp(v, -1.0F, 1.0F);
          x[9] = 1;
          for (float& v : x) v *= most;
        }
        const crumb::testing::OracleFormat f = crumb::testing::oracle_format(name);
        const std::vector<float> nf4(crumb::nf4_values().begin(), crumb::nf4_values().end());
        const auto error = [&](float s) {
          double sum = 0;
          for (const float v : x) {
            const int p = crumb::testing::oracle_encode(f, f.integer(), "half_even", v, s, 0, nf4);
            sum += std::pow(
                static_cast<double>(v) - static_cast<double>(crumb::testing::oracle_value(f, p, nf4) * s), 2);
          }
          return sum;
        };
        const float ideal = absmax(x) / most;
        double least = HUGE_VAL;
        for (int step = 35; step >= 0; --step) {
          const double factor = 0.3 + 0.7 * step / 35;  // equally spaced from 0.3 to 1
          const float s = oracle_scale(scale, oracle_encode_scale(scale, ideal * static_cast<float>(factor)));
          least = std::min(least, error(s));
        }
        // Where scales are powers of two, also the one that clips nothing.
        const float covering = std::ldexp(1.0F, static_cast<int>(std::ceil(std::log2(ideal))));
        const bool powers = std::string_view(scale) == "e8m0";
        if (powers) least = std::min(least, error(covering));
        const QuantizedTensor t =
            quantize(std::string(name) + ":group=61:search=mse:scale=" + scale, x, {61});
        const float s = crumb::RowDecoder(t.view()).scale(0);
        // The loops sum in float32 lanes: the same minimum up to their rounding.
        CHECK(error(s) <= least * (1 + 1e-5));
        bool on_the_list = powers && s == covering;
        for (int step = 0; step < 36; ++step) {
          const float factor = static_cast<float>(15 + step) / 50;
          on_the_list |= s == oracle_scale(scale, oracle_encode_scale(scale, ideal * factor));
        }
        CHECK(on_the_list);
      }
    }
  }
  // Ties go to the larger factor: values on the grid of 1.0 are exact there; so is a lone value at any factor
  // of binary.
  const std::vector<float> grid{7, -3, 2, 0, 1, -6, 5, 4};
  CHECK(crumb::RowDecoder(quantize("int4:tensor:search=mse", grid, {8}).view()).scale(0) == 1);
  const std::vector<float> fours{4, -4, 4, -4};
  CHECK(crumb::RowDecoder(quantize("e2m1:tensor:search=mse", fours, {4}).view()).scale(0) == 4.0F / 6);
}

TEST_CASE("mse and lsq: never worse than absmax") {
  for (const crumb::NumberFormat& f : crumb::number_formats()) {
    if (f.scale_only || f.learned) continue;
    for (const char* group : {":tensor", ":group=16"}) {
      uint64_t seed = 0;
      for (const float size : {1.0F, 1.0F, 1.0F, 1e-20F, 1e-38F, 3e-41F}) {
        std::vector<float> x = normal_values(64, ++seed);
        for (float& v : x) v *= size;
        const std::string start = std::string(f.name) + group;
        CAPTURE(start);
        CAPTURE(size);
        const double plain = squared_error(x, quantize(start, x, {64}));
        CHECK(squared_error(x, quantize(start + ":search=mse", x, {64})) <= plain * (1 + 1e-5));
        if (f.grid == crumb::Grid::kCodebook) continue;
        CHECK(squared_error(x, quantize(start + ":search=lsq", x, {64})) <= plain * (1 + 1e-5));
      }
    }
  }
}

TEST_CASE("lsq: finds the best steps of the Gaussian") {
  const std::vector<float> x = normal_values(200000, 5);
  const struct {
    const char* text;
    double step, error;
  } rows[] = {{"int2h:tensor:search=lsq", 0.995, 0.1190}, {"ternary:tensor:search=lsq", 1.225, 0.1904}};
  for (const auto& row : rows) {
    CAPTURE(row.text);
    const QuantizedTensor t = quantize(row.text, x, {x.size()});
    CHECK(static_cast<double>(crumb::RowDecoder(t.view()).scale(0)) ==
          doctest::Approx(row.step).epsilon(0.02));
    CHECK(squared_error(x, t) / static_cast<double>(x.size()) == doctest::Approx(row.error).epsilon(0.02));
  }
  // One bit: the mean magnitude, sqrt(2 / pi), with an error of 1 - 2 / pi.
  const QuantizedTensor binary = quantize("binary:tensor:search=lsq", x, {x.size()});
  CHECK(static_cast<double>(crumb::RowDecoder(binary.view()).scale(0)) ==
        doctest::Approx(std::sqrt(2 / M_PI)).epsilon(0.01));
  CHECK(mse("binary:tensor:search=lsq", x) == doctest::Approx(1 - 2 / M_PI).epsilon(0.01));
}

TEST_CASE("searches: the Gaussian's SQNR as the minifloat study tabulates it") {
  const std::vector<float> x = normal_values(100000, 9);
  const auto sqnr = [&](const std::string& text) { return -10 * std::log10(mse(text, x)); };
  const std::pair<const char*, double> rows[] = {
      {"int3", 13.29}, {"e2m0", 13.24}, {"int4", 18.92}, {"e2m1", 19.00}, {"e3m0", 14.20},
      {"int5", 24.46}, {"e2m2", 24.93}, {"e3m1", 19.73}, {"int6", 29.93}, {"e2m3", 30.91},
      {"e3m2", 25.59}, {"int8", 41.03}, {"e2m5", 42.90}, {"e3m4", 37.61}};
  for (const auto& [name, expected] : rows) {
    CAPTURE_COPY(name);
    CHECK(sqnr(std::string(name) + ":tensor:search=mse") == doctest::Approx(expected).epsilon(0.012));
  }
  // The balanced grid of four bits beats the narrow integers and e2m1.
  CHECK(mse("int4h:tensor:search=mse", x) == doctest::Approx(0.0116).epsilon(0.02));
  CHECK(mse("int4:tensor:search=mse", x) == doctest::Approx(0.0129).epsilon(0.02));
}

TEST_CASE("e1m(b-2) quantizes as the integers of b bits do, bit for bit") {
  for (int b = 3; b <= 8; ++b) {
    const std::string small = "e1m" + std::to_string(b - 2), whole = "int" + std::to_string(b);
    const std::vector<float> x = normal_values(4096, static_cast<uint64_t>(b));
    for (const char* options : {":tensor", ":group=32", ":group=32:search=mse", ":channel:scale=bf16"}) {
      CAPTURE(small);
      CAPTURE(options);
      std::vector<float> a(x.size()), c(x.size());
      crumb::fake_quantize(QuantSpec::parse(small + options), x, Shape{32, 128}, a);
      crumb::fake_quantize(QuantSpec::parse(whole + options), x, Shape{32, 128}, c);
      bool equal = true;  // values; the minifloat has a second zero
      for (size_t i = 0; i < x.size(); ++i) equal &= a[i] == c[i];
      CHECK(equal);
    }
  }
}

TEST_CASE("lsq: the published steps, until the scale stays or fifty are done") {
  // x . v / v . v of the codes' values, in double in the order of the values; codes by the definition.
  int longest = 0;
  for (const char* text : {"int8:tensor", "int3:tensor:round=stochastic=5", "e2m1:tensor",
                           "uint4:tensor:zero=int", "ternary:tensor"}) {
    const QuantSpec spec = QuantSpec::parse(std::string(text) + ":scale=f32:search=lsq");
    const crumb::CodeGrid grid = crumb::make_code_grid(*spec.number, spec.range, spec.round);
    const crumb::ScaleSearch searcher(spec, grid, 0, 1);
    for (const uint64_t n : {3, 100, 3000, 70000}) {
      CAPTURE(text);
      CAPTURE(n);
      const std::vector<float> x = normal_values(n, n + 2);
      QuantSpec plain = spec;
      plain.search = crumb::Search::kAbsmax;
      const crumb::BlockFit start = crumb::ScaleSearch(plain, grid, 0, 1).fit({x.data(), 1, n, n, 0});
      float s = start.scale;
      int steps = 0;
      for (; steps < 50; ++steps) {
        double xv = 0, vv = 0;
        for (uint64_t i = 0; i < n; ++i) {
          const uint8_t code = crumb::encode_ref(grid, x[i], s, start.zero, i);
          const double v = static_cast<double>(grid.values[code]) - static_cast<double>(start.zero);
          xv += static_cast<double>(x[i]) * v;
          vv += v * v;
        }
        const auto next = static_cast<float>(xv / vv);
        if (next == s) break;
        s = next;
      }
      longest = std::max(longest, steps);
      const crumb::BlockFit found = searcher.fit({x.data(), 1, n, n, 0});
      CHECK((found.scale == s || found.scale == start.scale));
      const auto error = [&](float scale) {
        double sum = 0;
        for (uint64_t i = 0; i < n; ++i) {
          const float y =
              crumb::decode_ref(grid, crumb::encode_ref(grid, x[i], scale, start.zero, i), scale, start.zero);
          sum += std::pow(static_cast<double>(x[i]) - static_cast<double>(y), 2);
        }
        return sum;
      };
      if (error(s) < error(start.scale) * (1 - 1e-5)) CHECK(found.scale == s);
    }
  }
  CHECK(longest == 50);
}

TEST_CASE("a block that comes as a stream has the fit of the block in memory, however it is cut") {
  for (const char* format : {"int3:tensor", "uint4:tensor:zero=int", "e2m1:tensor"}) {
    for (const char* search : {"", ":search=percentile=97", ":search=mse", ":search=lsq"}) {
      for (const char* round : {"", ":round=stochastic=7", ":round=floor"}) {
        const std::string text = std::string(format) + search + round;
        CAPTURE(text);
        const QuantSpec spec = QuantSpec::parse(text);
        const crumb::CodeGrid grid = crumb::make_code_grid(*spec.number, spec.range, spec.round);
        const crumb::ScaleSearch searcher(spec, grid, 0, 1);
        for (const uint64_t n : {1, 50, 1023, 1024, 1025, 2500}) {
          CAPTURE(n);
          const std::vector<float> x = normal_values(n, n);
          const uint64_t index = n % 3;
          const crumb::BlockFit whole = searcher.fit({x.data(), 1, n, n, index});
          for (const uint64_t slice : {100, 1024, 1500}) {
            CAPTURE(slice);
            crumb::SpanStream stream(x);
            const crumb::BlockFit cut = searcher.fit({nullptr, 1, n, n, index, &stream, slice});
            CHECK(cut.scale_pattern == whole.scale_pattern);
            CHECK(cut.zero_pattern == whole.zero_pattern);
            CHECK(cut.scale == whole.scale);
            CHECK(cut.zero == whole.zero);
            CHECK(cut.saturated == whole.saturated);
            CHECK(cut.finite);
          }
        }
      }
    }
  }
}

TEST_CASE("zeros: scales and zero points of a block of zeros are zero") {
  const std::vector<float> zeros(64, 0.0F);
  for (const char* spec : {"int8:channel", "int4:group=8:scale=f32:search=mse", "uint4:tensor:zero=int",
                           "uint4:group=16:zero=float", "int4:channel:zero=int:search=hqo",
                           "uint3:group=8:scale=bf16:zero=float"}) {
    CAPTURE(spec);
    const QuantizedTensor made = quantize(spec, zeros, {2, 32});
    for (const auto* bytes : {&made.scales, &made.zeros})
      CHECK(std::ranges::all_of(*bytes, [](auto byte) { return static_cast<unsigned>(byte) == 0; }));
  }
}

TEST_CASE("zeros: with e8m0 a channel has scale 1, a block of OCP's the smallest") {
  const std::vector<float> zeros(64, 0.0F);
  for (const char* spec :
       {"int8:channel:scale=e8m0", "int4:channel:scale=e8m0:search=mse", "uint4:tensor:scale=e8m0"}) {
    const QuantizedTensor made =
        crumb::quantize(QuantSpec::parse(spec), zeros, Shape{2, 32}, {.threads = 1, .name = "w"});
    REQUIRE(!made.scales.empty());
    for (const auto byte : made.scales) CHECK(static_cast<unsigned>(byte) == 127);
    CHECK(std::ranges::all_of(made.codes, [](auto byte) { return static_cast<unsigned>(byte) == 0; }));
  }
  const QuantizedTensor mx =
      crumb::quantize(QuantSpec::parse("mxfp4"), zeros, Shape{2, 32}, {.threads = 1, .name = "w"});
  for (const auto byte : mx.scales) CHECK(static_cast<unsigned>(byte) == 0);
}
