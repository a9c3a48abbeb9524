// The loops over the blocks of a row (largest magnitudes, scales, codes) against the fit and the code of one
// block at a time, by every variant.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "quant/quantizer.h"
#include "quant/search/scale_search.h"
#include "tests/quant/loop_variants.h"

using crumb::Loops;
using crumb::QuantSpec;
using crumb::testing::variants;

namespace {

/// A float of any exponent, sometimes inf, NaN, a zero or a subnormal number; often one as weights are.
float drawn_value(std::mt19937& engine) {
  switch (engine() % 8) {
    case 0: return std::bit_cast<float>(static_cast<uint32_t>(engine()));
    case 1: return std::bit_cast<float>(static_cast<uint32_t>(engine()) & 0x807FFFFFU);
    case 2: return engine() % 2 != 0 ? 0.0F : -0.0F;
    case 3: return std::ldexp(1.0F, static_cast<int>(engine() % 280) - 150);
    default:
      return std::ldexp(static_cast<float>(engine()) * 0x1p-31F - 1, static_cast<int>(engine() % 30) - 24);
  }
}

std::vector<float> drawn_values(size_t n, std::mt19937& engine) {
  std::vector<float> x(n);
  for (float& v : x) v = drawn_value(engine);
  return x;
}

const std::vector<std::string>& specs_with_rules() {
  static const std::vector<std::string> specs = [] {
    std::vector<std::string> made{"mxfp4",      "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3",
                                  "mxfp8_e5m2", "mxint8",     "nvfp4"};
    for (const char* number : {"int4", "int2h", "int8", "e2m1", "e3m2", "e2m3", "e4m3fnuz", "nf4", "binary"})
      for (const char* scale : {"f32", "f16", "bf16", "e8m0", "e4m3"})
        made.push_back(std::string(number) + ":group=16:pad:scale=" + scale);
    return made;
  }();
  return specs;
}

}  // namespace

TEST_CASE("block loops: largest magnitudes of blocks are those of each block alone") {
  std::mt19937 engine(5);
  for (const size_t block : {1, 3, 7, 8, 15, 16, 17, 24, 32, 48, 64, 80, 128}) {
    for (int draw = 0; draw < 60; ++draw) {
      const size_t n = engine() % 2500;
      const std::vector<float> x = drawn_values(n, engine);
      for (const Loops* loops : variants()) {
        std::vector<uint32_t> bits((n + block - 1) / block + 1, 77), expected = bits;
        loops->block_absmax(x.data(), n, block, bits.data());
        for (size_t b = 0; b * block < n; ++b) {
          expected[b] = 0;
          for (size_t i = b * block; i < std::min(n, (b + 1) * block); ++i)
            expected[b] = std::max(expected[b], std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFFU);
        }
        CAPTURE(loops->name);
        CAPTURE(block);
        CAPTURE(n);
        REQUIRE(bits == expected);
      }
    }
  }
}

TEST_CASE("block loops: a range is widened to what it must hold, bit for bit") {
  std::mt19937 engine(9);
  for (int draw = 0; draw < 3000; ++draw) {
    std::vector<float> x = drawn_values(engine() % 90, engine);
    const auto side = engine() % 4;  // values of both signs, or of one alone
    for (float& v : x) {
      if (!std::isfinite(v)) v = -0.0F;
      if (side == 1) v = std::fabs(v);
      if (side == 2) v = -std::fabs(v);
    }
    const float low = draw % 3 == 0 ? -0.01F : 0.0F, high = draw % 5 == 0 ? 0.02F : 0.0F;
    float least = low, most = high;
    for (const float v : x) {
      least = std::min(least, v);
      most = std::max(most, v);
    }
    for (const Loops* loops : variants()) {
      CAPTURE(loops->name);
      float found_low = low, found_high = high;
      loops->widen_range(x.data(), x.size(), &found_low, &found_high);
      REQUIRE(std::bit_cast<uint32_t>(found_low) == std::bit_cast<uint32_t>(least));
      REQUIRE(std::bit_cast<uint32_t>(found_high) == std::bit_cast<uint32_t>(most));
    }
  }
}

TEST_CASE("block loops: scales are those of the fit, and most weights have one") {
  std::mt19937 engine(6);
  for (const std::string& text : specs_with_rules()) {
    CAPTURE(text);
    const QuantSpec spec = QuantSpec::parse(text);
    const crumb::CodeGrid grid = crumb::make_code_grid(*spec.number, spec.range, spec.round);
    for (const float tensor_absmax : {1.0F, 0.37F, 3e-30F, 0x1p-149F, 2e38F}) {
      const crumb::ScaleSearch search(spec, grid, tensor_absmax);
      const std::optional<crumb::ScaleRule> rule = search.absmax_rule();
      REQUIRE(rule);
      std::vector<float> most = drawn_values(397, engine);
      for (size_t i = 0; i < 100; ++i) most[i] = 0.01F + std::fabs(static_cast<float>(engine()) * 0x1p-32F);
      std::vector<uint32_t> bits(most.size());
      for (size_t i = 0; i < most.size(); ++i) {
        most[i] = std::fabs(most[i]);
        bits[i] = std::bit_cast<uint32_t>(most[i]);
      }
      for (const Loops* loops : variants()) {
        std::vector<uint32_t> patterns(most.size());
        std::vector<float> scales(most.size());
        loops->block_scales(*rule, bits.data(), bits.size(), patterns.data(), scales.data());
        size_t served = 0;
        for (size_t i = 0; i < most.size(); ++i) {
          if (scales[i] == -1.0F) continue;
          const crumb::BlockFit fit = search.fit({&most[i], 1, 1, 1, 0});
          CAPTURE(loops->name);
          CAPTURE(most[i]);
          REQUIRE(fit.finite);
          REQUIRE_FALSE(fit.saturated);
          REQUIRE(patterns[i] == fit.scale_pattern);
          REQUIRE(std::bit_cast<uint32_t>(scales[i]) == std::bit_cast<uint32_t>(fit.scale));
          served += i < 100;
        }
        // In e4m3 alone, scales of 8-bit formats are small enough that some saturate.
        if (tensor_absmax == 1.0F) CHECK(served > (spec.scale == crumb::ScaleFormat::kE4M3 ? 50 : 90));
      }
    }
  }
}

TEST_CASE("block loops: codes of blocks are those of the reference") {
  std::mt19937 engine(7);
  for (const std::string& text : specs_with_rules()) {
    for (const char* round : {"", ":round=floor", ":round=stochastic"}) {
      if (*round != '\0' && (text.starts_with("nf4") || text.starts_with("binary"))) continue;
      CAPTURE(text);
      CAPTURE(round);
      const QuantSpec spec = QuantSpec::parse(text + round);
      const crumb::CodeGrid grid = crumb::make_code_grid(*spec.number, spec.range, spec.round);
      const size_t n = engine() % 300, block = 1 + engine() % 70, index = engine() % 1000;
      std::vector<float> x = drawn_values(n, engine), scales((n + block - 1) / block);
      for (float& v : x)
        if (!std::isfinite(v)) v = 1;
      for (float& s : scales) {
        s = std::fabs(drawn_value(engine));
        if (!std::isfinite(s)) s = 0;
      }
      const uint8_t zero = grid.zero_pattern(0);
      for (const Loops* loops : variants()) {
        CAPTURE(loops->name);
        std::vector<uint8_t> codes(n), expected(n);
        loops->encode_blocks(grid, x.data(), n, block, scales.data(), index, zero, codes.data());
        for (size_t i = 0; i < n; ++i) {
          const float s = scales[i / block];
          expected[i] = s > 0 ? crumb::encode_ref(grid, x[i], s, 0, index + i) : zero;
        }
        REQUIRE(codes == expected);
      }
    }
  }
}

TEST_CASE("block loops: a tensor has the scales and codes of its blocks one by one") {
  std::mt19937 engine(8);
  const char* const granularities[] = {":channel",       ":group=16:pad", ":group=24:pad",
                                       ":group=32:pad",  ":group=64:pad", ":block=4x16:pad",
                                       ":block=3x5:pad", ":block=8x8:pad"};
  for (int draw = 0; draw < 3000; ++draw) {
    std::string text = specs_with_rules()[engine() % specs_with_rules().size()];
    const size_t group = text.find(":group=16:pad");
    if (group != std::string::npos)
      text.replace(group, 13, granularities[engine() % std::size(granularities)]);
    if (group == std::string::npos) text += ":pad";
    CAPTURE(text);
    const QuantSpec spec = QuantSpec::parse(text);
    const crumb::CodeGrid grid = crumb::make_code_grid(*spec.number, spec.range, spec.round);
    const uint64_t shape[] = {4 + engine() % 30, 1 + engine() % 200};
    std::vector<float> x = drawn_values(shape[0] * shape[1], engine);
    for (float& v : x)
      if (!std::isfinite(v)) v = -0.25F;
    const float most = std::bit_cast<float>(crumb::loops().absmax_bits(x.data(), x.size()));
    const crumb::ScaleSearch search(spec, grid, most);
    const crumb::QuantizedTensor made = crumb::quantize(spec, x, shape);
    const uint64_t rows = made.encoding.block_rows, cols = made.encoding.block_cols;
    std::vector<float> values(x.size()), expected(x.size());
    dequantize(made.view(), values, 1);
    const auto bytes = static_cast<size_t>(crumb::scale_format_row(spec.scale).bytes);
    uint64_t block = 0, saturated = 0;
    for (uint64_t r = 0; r < shape[0]; r += rows) {
      for (uint64_t c = 0; c < shape[1]; c += cols, ++block) {
        const uint64_t below = std::min(shape[0], r + rows), right = std::min(shape[1], c + cols);
        const uint64_t first = r * shape[1] + c;
        const crumb::BlockFit fit = search.fit({x.data() + first, below - r, right - c, shape[1], first});
        uint32_t pattern = 0;
        std::memcpy(&pattern, made.scales.data() + block * bytes, bytes);
        REQUIRE(pattern == fit.scale_pattern);
        saturated += fit.saturated;
        for (uint64_t i = r; i < below; ++i) {
          for (uint64_t k = c; k < right; ++k) {
            const float v = x[i * shape[1] + k];
            const uint8_t code =
                fit.scale > 0 ? crumb::encode_ref(grid, v, fit.scale, 0) : grid.zero_pattern(0);
            expected[i * shape[1] + k] = crumb::decode_ref(grid, code, fit.scale, 0);
          }
        }
      }
    }
    REQUIRE(saturated == made.saturated_scales);
    REQUIRE(std::equal(values.begin(), values.end(), expected.begin(), [](float a, float b) {
      return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
    }));
  }
}
