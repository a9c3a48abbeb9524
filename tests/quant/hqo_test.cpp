// Half-quadratic splitting of a scale, step by step in plain code: the shrunken error, the median of the
// quotients, and when it ends; and its zero points.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "quant/distortion.h"
#include "quant/loops/loops.h"
#include "quant/quantizer.h"
#include "quant/search/scale_search.h"
#include "tests/quant/quantized_oracle.h"
#include "tests/support/capture_copy.h"

using crumb::QuantizedTensor;
using crumb::QuantSpec;
using crumb::testing::normal_values;

namespace {

/// x, or zero, moved to what the error of the norm's proximal step leaves.
float target_of(float x, float error, float beta) {
  const float size = std::fabs(error);
  if (size == 0) return x;
  return x - std::copysign(std::max(size - std::pow(size, 0.7F - 1) / beta, 0.0F), error);
}

QuantizedTensor quantized_by(const std::string& text, const std::vector<float>& x,
                             const std::vector<std::uint64_t>& shape) {
  return crumb::quantize(QuantSpec::parse(text), x, shape, {.threads = 1});
}

/// The stored pattern of block `b`'s scale.
std::uint32_t scale_pattern(const QuantizedTensor& t, std::uint64_t b) {
  const auto bytes = static_cast<std::uint64_t>(crumb::scale_format_row(t.encoding.scale).bytes);
  return crumb::testing::read_word(t.scales, b, bytes);
}

}  // namespace

TEST_CASE("hqo: scales are those of the published steps, bit for bit") {
  int moved = 0, longest = 0;
  for (const char* format : {"int2", "int3", "int4", "int3h", "e2m1", "ternary"}) {
    const QuantSpec spec = QuantSpec::parse(std::string(format) + ":tensor:scale=f32:search=hqo");
    const crumb::CodeGrid grid = crumb::make_code_grid(*spec.number, spec.range, spec.round);
    QuantSpec plain = spec;
    plain.search = crumb::Search::kAbsmax;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      CAPTURE_COPY(format);
      CAPTURE(seed);
      const uint64_t n = 20 + 13 * seed;
      std::vector<float> x = crumb::testing::normal_values(n, seed);
      for (float& v : x) v *= seed % 4 == 3 ? 1e-6F : 1;  // where the threshold takes every error
      const crumb::BlockFit start = crumb::ScaleSearch(plain, grid, 0, 1).fit({x.data(), 1, n, n, 0});
      float scale = start.scale, best = scale;
      double beta = 1e5, least = HUGE_VAL;
      int step = 0;
      for (; step < 1000; ++step, beta *= 1.01) {
        double absolute = 0;
        std::vector<float> quotients;
        for (uint64_t i = 0; i < n; ++i) {
          const float value = grid.values[crumb::encode_ref(grid, x[i], scale, 0, i)];
          const float error = x[i] - value * scale;
          absolute += static_cast<double>(std::fabs(error));
          const float target = target_of(x[i], error, static_cast<float>(beta));
          if (target != 0 && value != 0) quotients.push_back(target / value);
        }
        if (absolute > least * (1 + 1e-6)) break;  // plateaus are crossed
        least = std::min(least, absolute);
        best = scale;
        if (quotients.empty()) break;
        std::ranges::sort(quotients);
        scale = quotients[(quotients.size() - 1) / 2];
      }
      longest = std::max(longest, step);
      moved += best != start.scale;
      CHECK(crumb::ScaleSearch(spec, grid, 0, 1).fit({x.data(), 1, n, n, 0}).scale == best);
    }
  }
  CHECK(moved > 30);
  CHECK(longest == 1000);
}

TEST_CASE("hqo: a step's targets are those of powf, or left to it, on every instruction set") {
  std::mt19937_64 engine(3);
  std::uint64_t drawn = 0, left = 0;
  const auto below = [&](std::uint64_t n) { return engine() % n; };
  for (int round = 0; round < 1500; ++round) {
    const std::size_t n = 1 + below(600);
    const float scale =
        std::ldexp(1 + static_cast<float>(below(1000)) / 1000, static_cast<int>(below(40)) - 30);
    const auto beta = static_cast<float>(1e5 * std::pow(1.01, static_cast<double>(below(1000))));
    std::vector<float> x(n), values(n), sizes(n), targets(n), ratios(n);
    for (std::size_t i = 0; i < n; ++i) {
      values[i] = static_cast<float>(below(15)) - 7;
      const float off = std::ldexp(static_cast<float>(below(2001)) - 1000, -11 - static_cast<int>(below(12)));
      x[i] = below(20) == 0 ? values[i] * scale : (values[i] + off) * scale;
      if (below(200) == 0) x[i] = std::ldexp(x[i], -120);
    }
    for (const crumb::Loops* loops : crumb::all_loops()) {
      loops->hqo_step(x.data(), values.data(), n, scale, 0.7F - 1, beta, sizes.data(), targets.data(),
                      ratios.data());
      bool is_right = true;
      for (std::size_t i = 0; i < n; ++i) {
        const float error = x[i] - values[i] * scale;
        is_right = is_right && sizes[i] == std::fabs(error);
        left += std::isnan(targets[i]) ? 1 : 0;
        if (std::isnan(targets[i])) continue;
        const float target = target_of(x[i], error, beta);
        is_right = is_right && targets[i] == target &&
                   (values[i] == 0 || std::bit_cast<std::uint32_t>(ratios[i]) ==
                                          std::bit_cast<std::uint32_t>(target / values[i]));
      }
      CHECK(is_right);
      drawn += n;
    }
  }
  CHECK(drawn > 400'000);
  CHECK(left < drawn / 10);
}

TEST_CASE("hqo: moves scales by less than their format's step, and lowers the mean |error|") {
  std::vector<float> x = normal_values(512, 31);
  x[3] = 5;
  int moved = 0;
  double before = 0, after = 0;
  const auto add = [&](const std::string& text, double& sum) {
    const QuantizedTensor t = quantized_by(text, x, {8, 64});
    std::vector<float> y(x.size());
    crumb::dequantize(t.view(), y, 1);
    sum += crumb::distortion(x, y, 1).mean_abs_error;
    return t;
  };
  for (const char* format : {"int3", "int4", "e2m1"}) {
    const QuantizedTensor plain = add(std::string(format) + ":group=64", before);
    const QuantizedTensor searched = add(std::string(format) + ":group=64:search=hqo", after);
    for (uint64_t b = 0; b < 8; ++b) moved += scale_pattern(plain, b) != scale_pattern(searched, b);
  }
  CHECK(moved > 12);
  CHECK(after < before);
}

TEST_CASE("hqo: zero points are those of the published steps") {
  for (const char* format : {"uint2", "int3", "uint4"}) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      CAPTURE_COPY(format);
      CAPTURE_COPY(seed);
      std::vector<float> x = normal_values(48, seed);
      for (float& v : x) v = v * v * (seed % 2 == 0 ? 1.0F : -0.25F) + 0.5F;
      const std::string text = std::string(format) + ":tensor:zero=float";
      const QuantizedTensor start = quantized_by(text, x, {x.size()});
      const crumb::NumberFormat& number = *start.encoding.number;
      const auto low = static_cast<float>(number.least_code(start.encoding.range));
      const auto high = static_cast<float>(number.greatest_code(start.encoding.range));
      const float scale = crumb::RowDecoder(start.view()).scale(0);
      float zero = std::bit_cast<float>(crumb::testing::read_word(start.zeros, 0, 4)), best = zero;
      double beta = 1, least = HUGE_VAL;
      for (int step = 0; step < 1000; ++step, beta *= 1.01) {
        double absolute = 0, zeros = 0;
        for (const float v : x) {
          const float q = std::clamp(std::nearbyint(v / scale + zero), low, high);
          const float error = v - (q - zero) * scale, size = std::fabs(error);
          const float shrunk =
              size == 0 ? 0 : std::max(size - 1 / std::sqrt(size) / static_cast<float>(beta), 0.0F);
          absolute += size;
          zeros += static_cast<double>(q) -
                   static_cast<double>(v - std::copysign(shrunk, error)) / static_cast<double>(scale);
        }
        if (absolute >= least) break;
        least = absolute;
        best = zero;
        zero = static_cast<float>(zeros / static_cast<double>(x.size()));
      }
      const QuantizedTensor found = quantized_by(text + ":search=hqo", x, {x.size()});
      CHECK(crumb::RowDecoder(found.view()).scale(0) == scale);
      CHECK(std::bit_cast<float>(crumb::testing::read_word(found.zeros, 0, 4)) == best);
    }
  }
}
