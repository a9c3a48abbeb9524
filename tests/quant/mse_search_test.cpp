// search=mse over a block in memory (candidates stored together, those left out whose bound says so) against
// the same search over a stream, which tries every candidate over every value, one after the other.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "quant/codes/given_scales.h"
#include "quant/search/scale_search.h"
#include "quant/value_stream.h"
#include "tests/quant/loop_variants.h"

using crumb::BlockFit;
using crumb::QuantSpec;

namespace {

const std::vector<std::string>& mse_specs() {
  static const std::vector<std::string> specs = [] {
    std::vector<std::string> made{
        "mxfp4",         "mxfp6_e3m2",       "mxfp8_e5m2",       "mxint8",
        "nvfp4",         "int4:round=floor", "e2m1:round=floor", "int3:round=half_up",
        "int8:zero=int", "uint4:zero=float", "int2:zero=int"};
    for (const char* number :
         {"int4", "int2h", "int8", "e2m1", "e3m2", "e4m3fnuz", "nf4", "binary", "ternary"})
      for (const char* scale : {"f32", "f16", "bf16", "e8m0", "e4m3"})
        made.push_back(std::string(number) + ":scale=" + scale);
    for (const char* scale : {"f16", "e8m0", "e4m3"})
      for (const char* zero : {"int", "float"})
        made.push_back(std::string("int4:zero=") + zero + ":scale=" + scale);
    for (std::string& spec : made) spec += ":search=mse";
    return made;
  }();
  return specs;
}

/// As weights are; with one that is far larger; on a grid, so that errors tie; of any exponent; with zeros.
std::vector<float> drawn_block(size_t n, std::mt19937& engine) {
  std::normal_distribution<float> normal;
  const float size = std::ldexp(1.0F, static_cast<int>(engine() % 12) - 8);
  const auto kind = engine() % 6;
  std::vector<float> x(n);
  for (float& v : x) {
    v = normal(engine) * size;
    if (kind == 1) v = std::nearbyint(v / size * 2) * size;
    if (kind == 2) v = std::ldexp(v, static_cast<int>(engine() % 200) - 120);
    if (kind == 3 && engine() % 2 == 0) v = 0;
    if (kind == 4) v = std::ldexp(v, -130);
  }
  if (kind == 5) x[engine() % n] *= 30;
  return x;
}

}  // namespace

TEST_CASE("mse: a block in memory has the fit of one that is searched value by value") {
  std::mt19937 engine(21);
  for (int draw = 0; draw < 12000; ++draw) {
    const std::string& text = mse_specs()[engine() % mse_specs().size()];
    const QuantSpec spec = QuantSpec::parse(text);
    const crumb::CodeGrid grid = crumb::make_code_grid(*spec.number, spec.range, spec.round);
    const size_t n = engine() % 40 == 0 ? 1 + engine() % 2500 : 1 + engine() % 140;
    const std::vector<float> x = drawn_block(n, engine);
    const float most = std::bit_cast<float>(crumb::loops().absmax_bits(x.data(), n));
    if (most == 0) continue;
    const crumb::ScaleSearch search(spec, grid, most, 1);
    const BlockFit found = search.fit({x.data(), 1, n, n, 0});
    crumb::SpanStream stream(x);
    const BlockFit expected = search.fit({nullptr, 1, n, n, 0, &stream, n});
    CAPTURE(text);
    CAPTURE(n);
    CAPTURE(draw);
    REQUIRE(found.scale_pattern == expected.scale_pattern);
    REQUIRE(found.zero_pattern == expected.zero_pattern);
    REQUIRE(found.saturated == expected.saturated);
  }
}

TEST_CASE("mse: errors of one value, and of several scales, are the reference's in every variant") {
  std::mt19937 engine(22);
  for (const std::string& text : mse_specs()) {
    const QuantSpec spec = QuantSpec::parse(text);
    const crumb::CodeGrid grid = crumb::make_code_grid(*spec.number, spec.range, spec.round);
    for (int draw = 0; draw < 20; ++draw) {
      const size_t n = 1 + engine() % 90;
      const std::vector<float> x = drawn_block(n, engine);
      const float most = std::bit_cast<float>(crumb::loops().absmax_bits(x.data(), n));
      if (most < 0x1p-60F || most > 0x1p60F) continue;
      const float unit = std::ldexp(1.0F, -std::ilogb(most));
      std::vector<float> scales(32), zeros(32);
      for (float& s : scales)
        s = most * std::ldexp(1 + static_cast<float>(engine() % 999) / 999, -static_cast<int>(engine() % 9));
      for (float& z : zeros) z = spec.zero == crumb::ZeroPoint::kNone ? 0 : static_cast<float>(engine() % 5);
      for (const crumb::Loops* loops : crumb::testing::variants()) {
        CAPTURE(text);
        CAPTURE(loops->name);
        std::vector<float> errors(32);
        loops->value_errors(grid, x[0], scales.data(), zeros.data(), 32, unit, errors.data());
        std::vector<double> sums(7, 0.5);
        loops->squared_errors(grid, x.data(), n, scales.data(), zeros.data(), 7, unit, 3, sums.data());
        size_t bounded = 0;
        for (size_t k = 0; k < 32; ++k) {
          const double one = crumb::squared_error_ref(grid, x.data(), 1, scales[k], zeros[k], unit, 0);
          if (errors[k] != 0) REQUIRE(static_cast<double>(errors[k]) == one);
          bounded += static_cast<double>(errors[k]) == one;
          if (k < 7)
            REQUIRE(sums[k] ==
                    0.5 + crumb::squared_error_ref(grid, x.data(), n, scales[k], zeros[k], unit, 3));
        }
        const bool has_form =
            spec.round.rounding == crumb::Rounding::kHalfEven && spec.number->grid != crumb::Grid::kBinary;
        if (has_form) REQUIRE(bounded == 32);
      }
    }
  }
}

TEST_CASE("mse: ideals that are stored together are those that are stored one by one") {
  std::mt19937 engine(23);
  for (const std::string& text : mse_specs()) {
    CAPTURE(text);
    if (text.find("zero=") != std::string::npos) continue;
    const QuantSpec spec = QuantSpec::parse(text.substr(0, text.find(":search=mse")));
    const crumb::CodeGrid grid = crumb::make_code_grid(*spec.number, spec.range, spec.round);
    const crumb::ScaleSearch search(spec, grid, 1.0F);
    std::vector<float> factors(48), scales(48);
    std::vector<uint32_t> patterns(48);
    for (int draw = 0; draw < 50; ++draw) {
      const float ideal = std::ldexp(1.0F, static_cast<int>(engine() % 240) - 120);
      for (float& f : factors) f = 0.3F + static_cast<float>(engine() % 1000) / 1000;
      for (const crumb::Loops* loops : crumb::testing::variants()) {
        const bool all = loops->scaled_ideals(*search.absmax_rule(), ideal, factors.data(), 48,
                                              patterns.data(), scales.data());
        bool served = true;
        for (size_t i = 0; i < 48; ++i) {
          if (scales[i] == -1.0F) {
            served = false;
            continue;
          }
          const crumb::StoredScale one = encode_scale(spec, ideal * factors[i]);
          REQUIRE(patterns[i] == one.pattern);
          REQUIRE_FALSE(one.saturated);
          REQUIRE(scales[i] == search.effective(one.pattern));
        }
        REQUIRE(all == served);
      }
    }
  }
}
