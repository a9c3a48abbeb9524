// Percentiles of blocks on both sides of the size up to which they are sorted, against sorting: by magnitude, and by value
// where there is a zero point; with zeros of both signs, subnormals and neighbours in the last place.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "quant/search/scale_search.h"
#include "tests/support/capture_copy.h"

using crumb::QuantSpec;

namespace {

/// All signs, most sizes, and runs of floats that differ in their last bits.
std::vector<float> values_of_many_sizes(size_t count) {
  std::mt19937 engine(static_cast<uint32_t>(count));
  std::vector<float> x(count);
  for (size_t i = 0; i < count; ++i) {
    const float sign = engine() % 3 == 0 ? -1.0F : 1.0F;
    switch (engine() % 4) {
      case 0:
        x[i] = sign * std::ldexp(static_cast<float>(engine()), static_cast<int>(engine() % 60) - 80);
        break;
      case 1: x[i] = sign * (1.0F + static_cast<float>(engine() % 70000) * 0x1p-23F); break;
      case 2: x[i] = sign * static_cast<float>(engine()) * 0x1p-30F; break;
      default:
        x[i] = engine() % 3 == 0 ? sign * 0.0F : sign * static_cast<float>(engine() % 1000) * 0x1p-149F;
    }
  }
  return x;
}

/// The value at 1-based position floor(P / 100 n + 0.5), at least the first.
float at_percentile(const std::vector<float>& sorted, double p) {
  const auto n = static_cast<double>(sorted.size());
  return sorted[static_cast<size_t>(std::clamp(std::floor(p / 100 * n + 0.5), 1.0, n)) - 1];
}

}  // namespace

TEST_CASE("percentile: of large blocks as of small ones, the value that sorting finds") {
  // What is sorted has at most 2^16 values. Rows lie further apart than they are long.
  const uint64_t stride = 517;
  for (const auto& [rows, cols] : {std::pair<uint64_t, uint64_t>{128, 512}, {129, 512}, {240, 500}}) {
    CAPTURE_COPY(rows);
    const std::vector<float> x = values_of_many_sizes(rows * stride);
    std::vector<float> by_value;
    for (uint64_t r = 0; r < rows; ++r) {
      for (uint64_t c = 0; c < cols; ++c) by_value.push_back(x[r * stride + c]);
    }
    std::vector<float> by_size = by_value;
    for (float& v : by_size) v = std::fabs(v);
    std::ranges::sort(by_value);
    std::ranges::sort(by_size);
    for (const char* percent : {"100", "99.99", "97", "90", "75.5", "60", "51", "45"}) {
      CAPTURE(percent);
      const double p = std::stod(percent);
      const auto scale_of = [&, rows = rows, cols = cols](const std::string& start) {
        const QuantSpec spec = QuantSpec::parse(start + ":scale=f32:search=percentile=" + percent);
        const crumb::CodeGrid grid = crumb::make_code_grid(*spec.number, spec.range, spec.round);
        return crumb::ScaleSearch(spec, grid, 0, 1).fit({x.data(), rows, cols, stride, 0}).scale;
      };
      CHECK(scale_of("int8:tensor") == at_percentile(by_size, p) / 127);
      const float high = std::max(at_percentile(by_value, p), 0.0F),
                  low = std::min(at_percentile(by_value, 100 - p), 0.0F);
      if (high > low) CHECK(scale_of("uint8:tensor:zero=float") == (high - low) / 255);
    }
  }
}
