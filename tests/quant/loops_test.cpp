// Every variant of the vector loops gives the bits of the scalar reference: ties, halves, thresholds and
// their neighbours, subnormals, huge values, and all lengths around the vector's.
#include "quant/loops/loops.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "quant/code_grid.h"
#include "tests/quant/loop_variants.h"
#include "tests/support/capture_copy.h"
#include "tests/support/testing.h"

using crumb::CodeGrid;
using crumb::Loops;
using crumb::NumberFormat;
using crumb::Range;
using crumb::testing::variants;

namespace {

/// That all other test cases here run for each variant that this processor has says nothing of those that it lacks.
void skip_without(const char* name) {
  if (std::ranges::none_of(crumb::all_loops(),
                           [&](const Loops* one) { return std::string(one->name) == name; })) {
    crumb::testing::skip(std::string("this processor has no ") + name +
                         ": those loops were compared with nothing");
  }
}

CodeGrid grid_of(const NumberFormat& f, Range range, crumb::RoundingMode mode = {}) {
  std::vector<float> codebook;
  if (f.learned) {
    std::mt19937 engine(static_cast<uint32_t>(f.bits));
    std::set<float> values;
    while (values.size() < size_t{1} << f.bits) values.insert(static_cast<float>(engine()) * 0x1p-31F - 1);
    codebook.assign(values.begin(), values.end());
    if (f.bits > 2) codebook[1] = codebook[0] = codebook[2];  // learned centres may coincide
  }
  return make_code_grid(f, range, mode, codebook);
}

/// Where the grid's decisions lie, times s, with the floats beside; then extremes and random values.
std::vector<float> hard_inputs(const CodeGrid& grid, float s, float z, uint32_t seed) {
  std::vector<float> edges;
  std::set<float> values;
  for (int p = 0; p < 1 << grid.number->bits; ++p) {
    const float v = grid.values[static_cast<size_t>(p)];
    if (std::isfinite(v)) values.insert(v);
  }
  const std::vector<float> sorted(values.begin(), values.end());
  for (size_t i = 0; i < sorted.size(); ++i) {
    edges.push_back(sorted[i] - z);
    if (i + 1 < sorted.size()) edges.push_back((sorted[i] + sorted[i + 1]) / 2 - z);
  }
  edges.insert(edges.end(), grid.thresholds.begin(), grid.thresholds.end());
  edges.push_back(sorted.back() + 0.5F - z);
  edges.push_back(sorted.front() - 0.5F - z);
  std::vector<float> x;
  for (const float edge : edges) {
    const float v = edge * s;
    x.insert(x.end(), {v, std::nextafter(v, HUGE_VALF), std::nextafter(v, -HUGE_VALF)});
  }
  const float denormal = std::numeric_limits<float>::denorm_min();
  const float most = std::numeric_limits<float>::max();
  x.insert(x.end(), {0.0F, -0.0F, denormal, -denormal, 1e-39F, -1e-39F, most, -most, 1e30F, -1e30F,
                     4194304.5F * s, 8388609.0F * s, -0.49999997F * s, 0.49999997F * s});
  std::mt19937 engine(seed);
  for (int i = 0; i < 40; ++i) {
    const float v = std::bit_cast<float>(static_cast<uint32_t>(engine()));
    if (std::isfinite(v)) x.push_back(v);
    x.push_back((static_cast<float>(engine()) * 0x1p-31F - 1) * s * 4);
  }
  std::erase_if(x, [](float v) { return !std::isfinite(v); });
  return x;
}

/// What of one pass over values and gradients differs from the reference; empty when nothing does.
std::string fused_fault(const Loops& loops, const CodeGrid& grid, const std::vector<float>& x, float s,
                        float z) {
  if (!has_fused_loops(grid)) return {};
  const size_t n = x.size();
  std::vector<float> values(n), in_place = x;
  const uint32_t most = loops.fake(grid, x.data(), n, s, z, values.data());
  if (most != loops.absmax_bits(x.data(), n)) return "fake: absmax " + std::to_string(most);
  loops.fake(grid, x.data(), n, s, z, in_place.data());
  if (n > 0 && std::memcmp(values.data(), in_place.data(), n * sizeof(float)) != 0) return "fake in place";
  for (size_t i = 0; i < n; ++i) {
    const float expected = decode_ref(grid, encode_ref(grid, x[i], s, z), s, z);
    if (std::bit_cast<uint32_t>(values[i]) != std::bit_cast<uint32_t>(expected)) {
      return "fake " + std::to_string(x[i]) + ": " + std::to_string(values[i]) + ", expected " +
             std::to_string(expected);
    }
  }
  const crumb::FakeBand band{-1.5F, 2.25F};
  const float add = grid.number->grid == crumb::Grid::kHalfInteger ? grid.offset : z;
  for (size_t start = 0; start < n; start += crumb::kErrorRun) {
    const size_t count = std::min(crumb::kErrorRun, n - start);
    std::vector<float> grad(count), dx(count);
    for (size_t i = 0; i < count; ++i) grad[i] = static_cast<float>(i % 7) - 2.5F;
    const crumb::FakeSums sums =
        loops.fake_gradients(grid, band, x.data() + start, grad.data(), count, s, z, dx.data());
    double slopes = 0, outside = 0, size = 1e-6;
    for (size_t i = 0; i < count; ++i) {
      const float t = x[start + i] / s, u = t + add;
      const bool inside = u >= band.lo && u <= band.hi;
      const float v = decode_ref(grid, encode_ref(grid, x[start + i], s, z), 1, z);
      const bool smooth = inside && grid.number->grid != crumb::Grid::kBinary;
      const double slope = static_cast<double>(v) - (smooth ? static_cast<double>(t) : 0.0);
      slopes += static_cast<double>(grad[i]) * slope;
      outside += inside ? 0 : static_cast<double>(grad[i]);
      size += std::fabs(static_cast<double>(grad[i]) * slope) + 1;
      if (dx[i] != (inside ? grad[i] : 0.0F)) return "gradient of " + std::to_string(x[start + i]);
    }
    if (!(std::fabs(sums.scale - slopes) <= 1e-5 * size)) return "slopes " + std::to_string(sums.scale);
    if (std::fabs(sums.outside - outside) > 1e-5 * size) return "outside " + std::to_string(sums.outside);
    const crumb::FakeSums alone =
        loops.fake_gradients(grid, band, x.data() + start, grad.data(), count, s, z, nullptr);
    if (std::memcmp(&alone, &sums, sizeof sums) != 0) return "sums without dx";
  }
  return {};
}

/// What differs from the reference; empty when nothing does.
std::string fault(const Loops& loops, const CodeGrid& grid, const std::vector<float>& x, float s, float z) {
  const size_t n = x.size();
  std::vector<uint8_t> codes(n);
  std::vector<float> values(n);
  loops.encode(grid, x.data(), n, s, z, 5, codes.data());
  for (size_t i = 0; i < n; ++i) {
    const uint8_t expected = encode_ref(grid, x[i], s, z, 5 + i);
    if (codes[i] != expected) {
      return "encode " + std::to_string(x[i]) + ": " + std::to_string(codes[i]) + ", expected " +
             std::to_string(expected);
    }
  }
  loops.decode(grid, codes.data(), n, s, z, values.data());
  for (size_t i = 0; i < n; ++i) {
    const float expected = decode_ref(grid, codes[i], s, z);
    if (std::bit_cast<uint32_t>(values[i]) != std::bit_cast<uint32_t>(expected)) {
      return "decode " + std::to_string(codes[i]) + ": " + std::to_string(values[i]);
    }
  }
  for (const float unit : {1.0F, 0x1p-40F}) {
    const double found = loops.squared_error(grid, x.data(), n, s, z, unit, 5);
    const double expected = squared_error_ref(grid, x.data(), n, s, z, unit, 5);
    if (std::memcmp(&found, &expected, sizeof found) != 0 && !(std::isnan(found) && std::isnan(expected))) {
      return "squared_error " + std::to_string(found) + ", expected " + std::to_string(expected);
    }
  }
  if (std::string found = fused_fault(loops, grid, x, s, z); !found.empty()) return found;
  const float less = std::max(s * 0.37F, 0x1p-149F);  // a scale is above 0
  std::vector<float> scales{s, s * 1.5F, s, less, s * 2, s * 0.99F, s};
  std::vector<float> zeros{z, z, z + 1, z, z, z, z};
  for (int i = 0; i < 12; ++i) {  // more than several loops over several at a time
    scales.push_back(std::max(s * (0.5F + 0.1F * static_cast<float>(i)), 0x1p-149F));
    zeros.push_back(z);
  }
  for (size_t count = 0; count <= scales.size(); count += count < 8 ? 1 : 5) {
    std::vector<double> sums(scales.size(), 0.5);
    loops.squared_errors(grid, x.data(), n, scales.data(), zeros.data(), count, 0x1p-40F, 5, sums.data());
    for (size_t k = 0; k < sums.size(); ++k) {
      const double more =
          k < count ? squared_error_ref(grid, x.data(), n, scales[k], zeros[k], 0x1p-40F, 5) : 0;
      if (sums[k] != 0.5 + more && !std::isnan(more)) return "squared_errors " + std::to_string(sums[k]);
    }
  }
  return {};
}

}  // namespace

TEST_CASE("loops: every variant equals the reference on hard inputs") {
  const std::pair<float, float> scales_and_zeros[] = {
      {1, 0},      {0.1F, 3},      {0.3333333F, -2.5F}, {1e-3F, 0.49999997F},
      {3e-39F, 0}, {0x1p-149F, 1}, {1e30F, 0},          {0x1p-10F, 7}};
  for (const Loops* loops : variants()) {
    CAPTURE(loops->name);
    for (const NumberFormat& f : crumb::number_formats()) {
      if (f.scale_only) continue;
      CAPTURE(f.name);
      for (const Range range : {Range::kNarrow, Range::kFull}) {
        if (range != f.default_range() && !f.has_range()) continue;
        const CodeGrid grid = grid_of(f, range);
        for (const auto& [s, z] : scales_and_zeros) {
          const float zero = f.has_zero_point() ? z : 0;
          CAPTURE_COPY(s);
          CAPTURE(zero);
          const std::string found = fault(*loops, grid, hard_inputs(grid, s, zero, 1), s, zero);
          if (!found.empty()) CHECK(found == "");
        }
      }
    }
  }
}

TEST_CASE("loops: every variant equals the reference at every length") {
  for (const Loops* loops : variants()) {
    CAPTURE(loops->name);
    for (const char* name :
         {"int4", "uint8", "int3h", "binary", "e2m1", "e4m3fnuz", "e3m0", "nf4", "palette7"}) {
      CAPTURE(name);
      const NumberFormat& f = *crumb::find_number_format(name);
      const CodeGrid grid = grid_of(f, f.default_range());
      std::vector<size_t> lengths{100, 1023, 1024, 1025, 3000};
      for (size_t n = 0; n <= 70; ++n) lengths.push_back(n);
      for (const size_t n : lengths) {
        std::mt19937 engine(static_cast<uint32_t>(n));
        std::vector<float> x(n);
        for (float& v : x) v = static_cast<float>(engine()) * 0x1p-29F - 4;
        for (const float z : {0.0F, static_cast<float>(n % 7) - 3}) {
          if (z != 0 && !f.has_zero_point()) continue;
          const std::string found = fault(*loops, grid, x, 0.7F, z);
          if (!found.empty()) {
            CAPTURE(n);
            CAPTURE_COPY(z);
            CHECK(found == "");
          }
        }
      }
    }
  }
}

TEST_CASE("loops: every rounding mode of every variant equals the reference") {
  for (const Loops* loops : variants()) {
    for (const crumb::RoundingName& row : crumb::kRoundingNames) {
      for (const char* name : {"int5", "uint3", "int2h", "e2m2"}) {
        CAPTURE(row.name);
        CAPTURE(name);
        const NumberFormat& f = *crumb::find_number_format(name);
        const CodeGrid grid = grid_of(f, f.default_range(), {row.rounding, 9});
        CHECK(fault(*loops, grid, hard_inputs(grid, 0.25F, 0, 2), 0.25F, 0) == "");
      }
    }
  }
}

TEST_CASE("loops: every rounding mode at every length, where no error dwarfs the others") {
  for (const Loops* loops : variants()) {
    CAPTURE(loops->name);
    for (const crumb::RoundingName& row : crumb::kRoundingNames) {
      CAPTURE(row.name);
      for (const char* name : {"int5", "uint3", "int2h", "e2m2"}) {
        CAPTURE(name);
        const NumberFormat& f = *crumb::find_number_format(name);
        const CodeGrid grid = grid_of(f, f.default_range(), {row.rounding, 9});
        for (const size_t n : {0, 1, 15, 16, 17, 100, 1023, 1024, 1025, 2100}) {
          std::mt19937 engine(static_cast<uint32_t>(n));
          std::vector<float> x(n);
          for (float& v : x) v = static_cast<float>(engine()) * 0x1p-29F - 4;
          CAPTURE(n);
          CHECK(fault(*loops, grid, x, 0.7F, 0) == "");
        }
      }
    }
  }
}

TEST_CASE("loops: every variant equals the reference over a sweep of float32") {
  const uint32_t step = crumb::testing::slow() ? 40009 : 20000003;
  std::vector<float> x;
  for (uint64_t bits = 0; bits <= UINT32_MAX; bits += step) {
    const float v = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (std::isfinite(v)) x.push_back(v);
  }
  for (const Loops* loops : variants()) {
    CAPTURE(loops->name);
    for (const NumberFormat& f : crumb::number_formats()) {
      if (f.scale_only) continue;
      CAPTURE(f.name);
      const CodeGrid grid = grid_of(f, f.default_range());
      const std::string found = fault(*loops, grid, x, 0.37F, 0);
      if (!found.empty()) CHECK(found == "");
    }
  }
}

TEST_CASE("loops: absmax is the largest magnitude, and inf and NaN show") {
  std::mt19937 engine(3);
  for (const Loops* loops : variants()) {
    CAPTURE(loops->name);
    CHECK(loops->absmax_bits(nullptr, 0) == 0);
    for (size_t n = 1; n <= 70; ++n) {
      std::vector<float> x(n);
      float most = 0;
      for (float& v : x) {
        v = static_cast<float>(engine()) * 0x1p-31F - 1;
        most = std::fmax(most, std::fabs(v));
      }
      CHECK(loops->absmax_bits(x.data(), n) == std::bit_cast<uint32_t>(most));
      for (const float bad : {HUGE_VALF, -HUGE_VALF, std::nanf(""), -std::nanf("")}) {
        std::vector<float> y = x;
        y[engine() % n] = bad;
        CHECK(loops->absmax_bits(y.data(), n) >= 0x7F800000);
      }
      const std::vector<float> zeros(n, -0.0F);
      CHECK(loops->absmax_bits(zeros.data(), n) == 0);
    }
  }
}

TEST_CASE("loops: a product in the place of the division gives the errors of the division near every tie") {
  // Quotients that are a tie or one unit in the last place beside it, for scales of every mantissa.
  std::mt19937 engine(11);
  for (const Loops* loops : variants()) {
    CAPTURE(loops->name);
    for (const char* name : {"int2", "int4", "int8", "uint8", "int2h", "int4h"}) {
      CAPTURE(name);
      const NumberFormat& f = *crumb::find_number_format(name);
      const CodeGrid grid = grid_of(f, f.default_range());
      int wrong = 0;
      for (int round = 0; round < 300; ++round) {
        const float s = std::ldexp(1.0F + static_cast<float>(engine() >> 9) * 0x1p-23F, round % 40 - 20);
        const float z = f.has_zero_point() && round % 2 == 1 ? static_cast<float>(engine() % 5) : 0.0F;
        std::vector<float> x;
        for (int i = 0; i < 40; ++i) {
          const float v = (std::floor((grid.hi - grid.lo) * static_cast<float>(engine()) * 0x1p-32F) +
                           grid.lo + 0.5F - z - grid.offset) *
                          s;
          const float nudge = engine() % 2 == 0 ? HUGE_VALF : -HUGE_VALF;
          x.push_back(engine() % 3 == 0 ? v : std::nextafter(v, nudge));
        }
        wrong += loops->squared_error(grid, x.data(), x.size(), s, z, 1, 0) !=
                 squared_error_ref(grid, x.data(), x.size(), s, z, 1, 0);
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("loops: the extremes of the lanes bound the error from below") {
  std::mt19937 engine(12);
  for (const Loops* loops : variants()) {
    CAPTURE(loops->name);
    for (size_t n = 0; n <= 200; ++n) {
      std::vector<float> x(n);
      for (float& v : x) v = static_cast<float>(engine()) * 0x1p-29F - 4;
      if (n > 30) x[20] = -x[4];  // of two alike the first
      float extremes[crumb::kErrorLanes], expected[crumb::kErrorLanes] = {};
      loops->lane_extremes(x.data(), n, extremes);
      for (size_t i = 0; i < n; ++i) {
        float& most = expected[i % crumb::kErrorLanes];
        if (std::fabs(x[i]) > std::fabs(most)) most = x[i];
      }
      CHECK(std::memcmp(extremes, expected, sizeof expected) == 0);
      for (const char* name : {"int4", "int2h", "e2m1", "nf4"}) {
        const NumberFormat& f = *crumb::find_number_format(name);
        const CodeGrid grid = grid_of(f, f.default_range());
        for (const float s : {0.1F, 0.7F, 2.0F}) {
          CHECK(loops->squared_error(grid, extremes, std::min(n, crumb::kErrorLanes), s, 0, 1, 0) <=
                loops->squared_error(grid, x.data(), n, s, 0, 1, 0));
        }
      }
    }
  }
}

TEST_CASE("loops: the variant for AVX2 was among those that are compared above") { skip_without("avx2"); }
TEST_CASE("loops: the variant for AVX-512 was among those that are compared above") {
  skip_without("avx512");
}

TEST_CASE("loops: the fastest variant is the last one, the plain one the first") {
  CHECK(variants().front()->name == "baseline");
  CHECK(&crumb::loops() == variants().back());
}
