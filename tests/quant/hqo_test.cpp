// Half-quadratic splitting of a scale, step by step in plain code: the shrunken error, the median of the quotients, and
// when it ends. Its zero points are in scale_search_test.cpp.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "quant/scale_search.h"
#include "tests/quant/quantized_oracle.h"
#include "tests/support/capture_copy.h"

using crumb::QuantSpec;

namespace {

/// x, or zero, moved to what the error of the norm's proximal step leaves.
float target_of(float x, float error, float beta) {
  const float size = std::fabs(error);
  if (size == 0) return x;
  return x - std::copysign(std::max(size - std::pow(size, 0.7F - 1) / beta, 0.0F), error);
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
