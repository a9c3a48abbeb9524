// The sweep: every number format x granularity x shape, with scale formats, zero points, searches and
// rounding in turn (nearly all products with CRUMB_SLOW=1), against the numeric contract recomputed in
// quantized_oracle.h.
#include "quant/quantizer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "quant/quant_spec.h"
#include "tests/quant/quantized_oracle.h"
#include "tests/support/testing.h"

using crumb::Granularity;
using crumb::QuantizedTensor;
using crumb::QuantSpec;
using crumb::testing::elements;
using crumb::testing::mixed_values;
using crumb::testing::OracleFormat;
using crumb::testing::same_bits;
using crumb::testing::same_bytes;
using crumb::testing::Shape;

namespace {

/// Rows and columns that share a scale, from the spec's text.
std::pair<uint64_t, uint64_t> block_of(const QuantSpec& spec, const Shape& shape) {
  const bool matrix = shape.size() > 1;
  const uint64_t rows = matrix ? std::max<uint64_t>(shape[0], 1) : 1;
  const uint64_t cols = std::max<uint64_t>(elements(shape) / rows, 1);
  switch (spec.granularity) {
    case Granularity::kTensor: return {rows, cols};
    case Granularity::kChannel:
    case Granularity::kToken: return {1, cols};
    case Granularity::kGroup: return {1, spec.block_cols};
    case Granularity::kBlock: break;
  }
  return {spec.block_rows, spec.block_cols};
}

/// Whether each value's group holds zeros only.
std::vector<bool> in_zero_group(const std::vector<float>& x, uint64_t cols, uint64_t block_rows,
                                uint64_t block_cols) {
  std::vector<bool> result(x.size());
  const uint64_t rows = x.empty() ? 0 : x.size() / cols;
  for (size_t i = 0; i < x.size(); ++i) {
    const uint64_t r0 = i / cols / block_rows * block_rows, c0 = i % cols / block_cols * block_cols;
    bool zeros = true;
    for (uint64_t r = r0; r < std::min(r0 + block_rows, rows) && zeros; ++r) {
      for (uint64_t c = c0; c < std::min(c0 + block_cols, cols) && zeros; ++c) zeros = x[r * cols + c] == 0;
    }
    result[i] = zeros;
  }
  return result;
}

/// What is wrong with the way that `spec` quantizes these values; empty when nothing is.
std::string fault(const QuantSpec& spec, const std::vector<float>& x, const Shape& shape, int threads) {
  const QuantizedTensor t = crumb::quantize(spec, x, shape, {.threads = 1, .name = "w"});
  if (threads != 1 && !same_bytes(t, crumb::quantize(spec, x, shape, {.threads = threads}))) {
    return "threads change the bytes";
  }
  if (t.spec != spec.to_string() || t.shape != shape) return "spec or shape is not kept";
  std::vector<float> y(x.size()), fake(x.size());
  crumb::dequantize(t.view(), y, threads);
  crumb::fake_quantize(spec, x, shape, fake, {.threads = threads});
  if (!same_bits(y, fake)) return "dequantize(quantize(x)) != fake_quantize(x)";
  std::vector<float> in_place = x;
  crumb::fake_quantize(spec, in_place, shape, in_place, {.threads = 1});
  if (!same_bits(y, in_place)) return "fake_quantize in place differs";

  const auto [block_rows, block_cols] = block_of(spec, shape);
  const crumb::testing::OracleTensor oracle = crumb::testing::read_tensor(t, block_rows, block_cols);
  if (!same_bits(y, oracle.values)) return "values differ from (value(code) - zero) * scale";
  const OracleFormat& f = oracle.format;
  const bool narrow = spec.range == crumb::Range::kNarrow;
  const auto [lo, hi] = crumb::testing::oracle_codes(f, narrow);
  const bool grid_of_integers = f.integer() || f.kind == OracleFormat::kHalf;
  const std::string_view mode = crumb::rounding_name(spec.round.rounding);
  const bool known_code = mode == "half_even" || (grid_of_integers && mode != "stochastic");
  const crumb::RowDecoder decoder(t.view());
  const std::vector<bool> zeros = in_zero_group(x, t.layout.matrix.cols, block_rows, block_cols);
  const bool without_zero =
      f.kind == OracleFormat::kHalf || f.kind == OracleFormat::kBinary || f.kind == OracleFormat::kPalette;
  const bool says_zero = spec.scale != crumb::ScaleFormat::kE8M0 || without_zero;
  for (size_t i = 0; i < x.size(); ++i) {
    const int pattern = oracle.patterns[i];
    const std::string at = " at " + std::to_string(i) + " (x = " + std::to_string(x[i]) + ")";
    if (grid_of_integers) {
      const int code = pattern >= 1 << (f.bits - 1) && f.kind != OracleFormat::kUnsigned
                           ? pattern - (1 << f.bits)
                           : pattern;
      if (code < lo || code > hi) return "code " + std::to_string(code) + " out of range" + at;
    }
    const float s = oracle.scales[i], z = oracle.zeros[i];
    if (zeros[i]) {
      if (y[i] != 0) return "a group of zeros does not decode to zeros" + at;
      if (f.integer() && crumb::testing::oracle_value(f, pattern, {}) != z)
        return "codes of a zero group are not the zero point" + at;
      if ((s == 0) != says_zero && !spec.block_format) return "a group of zeros has a scale" + at;
    } else if (s > 0 && known_code &&
               pattern != crumb::testing::oracle_encode(f, narrow, mode, x[i], s, z, oracle.codebook)) {
      return "code " + std::to_string(pattern) + " is not the contract's" + at;
    }
    if (s == 0 && y[i] != 0) return "scale 0 decodes to something" + at;
    if (f.integer() && spec.zero != crumb::ZeroPoint::kFloat && y[i] == 0 && std::signbit(y[i]))
      return "-0" + at;
    const uint64_t cols = t.layout.matrix.cols;
    const float ref = decoder.value_ref(i / cols, i % cols);
    if (!same_bits({&ref, 1}, {&y[i], 1})) return "value_ref differs" + at;
  }
  // A stretch that starts inside a row equals the same stretch of the whole.
  for (uint64_t r = 0; r < t.layout.matrix.rows; ++r) {
    const uint64_t cols = t.layout.matrix.cols, first = cols / 3;
    std::vector<float> part(cols - first);
    decoder.values(r, first, part);
    if (!same_bits(part, std::span(y).subspan(r * cols + first, part.size())))
      return "a part of a row differs";
  }
  return {};
}

std::vector<Shape> shapes_for(uint64_t b) {
  return {{},      {0},        {1},        {b - 1},        {b},    {b + 1}, {97},
          {1, 1},  {3, b},     {5, b + 1}, {2, 2 * b - 1}, {7, 0}, {0, 4},  {4, 2, b},
          {13, 1}, {8, 2 * b}, {3, 5, 7},  {2, 3, 2, 3}};
}

/// Every option text that may follow a format, per key.
std::vector<std::string> zero_options(const crumb::NumberFormat& f) {
  if (!f.has_zero_point()) return {""};
  return {"", ":zero=int", ":zero=float"};
}
std::vector<std::string> search_options(const crumb::NumberFormat& f) {
  if (f.learned) return {""};
  if (f.grid == crumb::Grid::kCodebook) return {"", ":search=mse", ":search=percentile=95"};
  return {"", ":search=mse", ":search=percentile=95", ":search=lsq", ":search=hqo"};
}
std::vector<std::string> round_options(const crumb::NumberFormat& f) {
  if (!f.has_rounding()) return {""};
  return {"",
          "",
          "",
          ":round=half_up",
          ":round=half_down",
          ":round=ceil",
          ":round=floor",
          ":round=up",
          ":round=down",
          ":round=stochastic=5"};
}
std::vector<std::string> range_options(const crumb::NumberFormat& f) {
  if (!f.has_range()) return {""};
  return {"", f.is_signed ? ":range=full" : ":range=narrow"};
}

void check(const std::string& text, const Shape& shape, uint64_t seed, int threads, size_t& cases) {
  const QuantSpec spec = QuantSpec::parse(text);
  const std::vector<float> x = mixed_values(elements(shape), seed);
  ++cases;
  if (const auto misfit = spec.misfit(shape)) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(crumb::quantize(spec, x, shape, {.name = "layer.weight"}),
                         doctest::Contains("tensor 'layer.weight'"), crumb::Error);
    return check(text + ":pad", shape, seed, threads, cases);
  }
  const std::string found = fault(spec, x, shape, threads);
  if (found.empty()) return;
  CAPTURE(text);
  CAPTURE(crumb::testing::elements(shape));
  CAPTURE(shape.size());
  CHECK(found == "");
}

}  // namespace

TEST_CASE("quantizer: every format, granularity and shape keeps the contract") {
  const bool all = crumb::testing::slow();
  const std::pair<std::string, uint64_t> granularities[] = {
      {":tensor", 16}, {"", 16},          {":group=32", 32}, {":group=16", 16},
      {":group=5", 5}, {":block=4x8", 8}, {":block=2x3", 3}, {":group=1", 2}};
  size_t turn = 0, cases = 0;
  for (const crumb::NumberFormat& f : crumb::number_formats()) {
    if (f.scale_only) continue;
    const auto zeros = zero_options(f), searches = search_options(f), rounds = round_options(f),
               ranges = range_options(f);
    for (const auto& [granularity, block] : granularities) {
      for (const Shape& shape : shapes_for(block)) {
        const std::string start = std::string(f.name) + granularity;
        const auto scale_text = [](size_t i) {
          return ":scale=" + std::string(crumb::kScaleFormats[i % 5].name);
        };
        if (!all) {
          // Each option in turn; the periods have no common divisor, so that pairs meet.
          const size_t n = turn++;
          const std::string text = start + scale_text(n % 5) + searches[n / 3 % searches.size()] +
                                   ranges[n / 7 % ranges.size()] + zeros[n % zeros.size()] +
                                   rounds[n / 2 % rounds.size()];
          check(text, shape, n, n % 11 == 0 ? 3 : 1, cases);
          continue;
        }
        for (size_t scale = turn % 3; scale < 5; scale += 3) {
          for (const std::string& search : searches) {
            for (const std::string& range : ranges) {
              for (const std::string& zero : zeros) {
                const std::string& round = rounds[turn++ % rounds.size()];
                check(start + scale_text(scale) + search + range + zero + round, shape, turn,
                      turn % 97 == 0 ? 3 : 1, cases);
              }
            }
          }
        }
      }
    }
  }
  CHECK(cases > 8000);
}

TEST_CASE("quantizer: every block format and shape keeps the contract") {
  size_t turn = 0, cases = 0;
  for (const crumb::BlockFormat& f : crumb::kBlockFormats) {
    for (const Shape& shape : shapes_for(f.block)) {
      for (const char* option : {"", ":search=mse", ":round=stochastic=3", ":round=floor"}) {
        check(std::string(f.name) + option, shape, ++turn, 1, cases);
      }
    }
  }
  CHECK(cases > 500);
}

TEST_CASE("quantizer: the number of threads changes no byte") {
  const Shape shape{131, 640};
  const std::vector<float> x = mixed_values(elements(shape), 77);
  const auto compare = [&](const std::string& text) {
    CAPTURE(text);
    const QuantSpec spec = QuantSpec::parse(text);
    const QuantizedTensor one = crumb::quantize(spec, x, shape, {.threads = 1});
    std::vector<float> values(x.size()), other(x.size());
    crumb::dequantize(one.view(), values, 1);
    for (const int threads : {2, 3, 7}) {
      CHECK(same_bytes(one, crumb::quantize(spec, x, shape, {.threads = threads})));
      crumb::dequantize(one.view(), other, threads);
      CHECK(same_bits(values, other));
    }
  };
  const char* granularities[] = {":tensor", ":channel", ":group=64", ":block=32x64:pad"};
  size_t turn = 0;
  for (const crumb::NumberFormat& f : crumb::number_formats()) {
    if (f.scale_only) continue;
    if (f.learned && f.bits > 4) continue;  // slow, and nothing new
    const auto searches = search_options(f), rounds = round_options(f);
    compare(std::string(f.name) + granularities[turn % 4] +
            searches[turn % std::min<size_t>(searches.size(), 4)] + (turn % 3 == 0 ? rounds.back() : ""));
    ++turn;
  }
  for (const crumb::BlockFormat& f : crumb::kBlockFormats) compare(std::string(f.name));
}

TEST_CASE("quantizer: extreme magnitudes keep the contract and saturate their scales") {
  const Shape shape{4, 32};
  for (const float size : {1e-45F, 3e-42F, 1e-38F, 1e-30F, 1e-12F, 1e6F, 1e20F, 1e38F}) {
    std::vector<float> x = crumb::testing::normal_values(128, 3);
    for (float& v : x) v *= size;
    size_t turn = 0;
    for (const crumb::NumberFormat& f : crumb::number_formats()) {
      if (f.scale_only) continue;
      for (const crumb::ScaleFormatRow& scale : crumb::kScaleFormats) {
        const auto searches = search_options(f), zeros = zero_options(f);
        const std::string text = std::string(f.name) + ":channel:scale=" + std::string(scale.name) +
                                 searches[turn % searches.size()] + zeros[turn / 5 % zeros.size()];
        ++turn;
        const std::string found = fault(QuantSpec::parse(text), x, shape, 1);
        if (!found.empty()) {
          CAPTURE(text);
          CAPTURE(size);
          CHECK(found == "");
        }
      }
    }
    for (const crumb::BlockFormat& f : crumb::kBlockFormats) {
      CAPTURE(f.name);
      CAPTURE(size);
      CHECK(fault(QuantSpec::parse(f.name), x, shape, 1) == "");
    }
  }
  const std::vector<float> large(128, 1e20F);
  CHECK(crumb::quantize(QuantSpec::parse("int4:group=32"), large, shape).saturated_scales == 4);
  CHECK(crumb::quantize(QuantSpec::parse("int4:channel"), large, shape).saturated_scales == 0);
  const std::vector<float> small(128, 1e-12F);
  CHECK(crumb::quantize(QuantSpec::parse("int4:group=32"), small, shape).saturated_scales == 4);
  CHECK(crumb::quantize(QuantSpec::parse("int4:group=32:scale=e8m0"), small, shape).saturated_scales == 0);
}

TEST_CASE("quantizer: values that are inf or NaN name the tensor, their count and the first index") {
  const Shape shape{3, 32};
  for (const char* text :
       {"int4", "mxfp4", "nvfp4", "palette2", "int8:tensor:search=mse", "e4m3fn:group=16"}) {
    CAPTURE(text);
    std::vector<float> x = crumb::testing::normal_values(96, 1);
    x[70] = std::numeric_limits<float>::quiet_NaN();
    x[95] = -std::numeric_limits<float>::infinity();
    for (const int threads : {1, 3}) {
      try {
        crumb::quantize(QuantSpec::parse(text), x, shape, {.threads = threads, .name = "layer.0.weight"});
        FAIL("no error");
      } catch (const crumb::Error& error) {
        const std::string message = error.what();
        CHECK(error.kind() == crumb::ErrorKind::kFailed);
        for (const char* part : {"layer.0.weight", "2 values", "index 70", "NaN", "[3, 32]"}) {
          CHECK(message.find(part) != std::string::npos);
        }
      }
    }
    x[3] = std::numeric_limits<float>::infinity();
    CHECK_THROWS_WITH_AS(crumb::quantize(QuantSpec::parse(text), x, shape, {}), doctest::Contains("index 3 "),
                         crumb::Error);
  }
}

TEST_CASE("quantizer: a shape that does not hold the values is an error") {
  const std::vector<float> x(12);
  CHECK_THROWS_WITH_AS(crumb::quantize(QuantSpec::parse("int4"), x, Shape{3, 5}, {.name = "w"}),
                       doctest::Contains("12 values given for shape [3, 5]"), crumb::Error);
  CHECK_THROWS_AS(
      crumb::quantize(QuantSpec::parse("int4"), x, Shape{uint64_t{1} << 40, uint64_t{1} << 40}, {}),
      crumb::Error);
}

TEST_CASE("quantizer: bits per weight are the stored bits over the weights") {
  const auto bits = [](const char* text, const Shape& shape) {
    const std::vector<float> x = crumb::testing::normal_values(elements(shape), 1);
    const crumb::EncodedLayout layout = crumb::quantize(QuantSpec::parse(text), x, shape).layout;
    return crumb::bits_per_weight(layout.total_bytes(), layout.matrix.size());
  };
  CHECK(bits("int4:group=32", {64, 128}) == 4.5);
  CHECK(bits("int4:group=128", {64, 128}) == 4.125);
  CHECK(bits("int2h:group=64", {64, 128}) == 2.25);
  CHECK(bits("mxfp4", {64, 128}) == 4.25);
  CHECK(bits("nvfp4", {64, 128}) == 4.5 + 32.0 / (64 * 128));
  CHECK(bits("int8:channel", {64, 128}) == 8.25);
  CHECK(bits("int3:channel", {2, 3}) == (2 * 16 + 2 * 32) / 6.0);  // rows of 9 bits are padded to 16
  CHECK(bits("palette4:tensor", {64, 128}) == 4 + (32.0 + 16 * 32) / (64 * 128));
  CHECK(bits("int4:group=32:zero=int", {64, 128}) == 4.5 + 4.0 / 32);
  CHECK(bits("int4", {0, 3}) == 0);
}
