// The table of number formats against their names: bits, ranges, values; the facts that papers state about
// them.
#include "formats/number/number_format.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "formats/number/block_format.h"
#include "tests/formats/number/oracle.h"

using crumb::Grid;
using crumb::NumberFormat;
using crumb::Range;
using crumb::testing::OracleFormat;

namespace {

/// Same value, zeros of one sign, or both NaN.
bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

/// Quantile of the standard normal distribution, by bisection on erfc.
double normal_quantile(double p) {
  double low = -10, high = 10;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < p ? low : high) = middle;
  }
  return low;
}

}  // namespace

TEST_CASE("number formats: every format that the plan names is there once") {
  std::multiset<std::string> names;
  for (const NumberFormat& f : crumb::number_formats()) names.insert(std::string(f.name));
  std::vector<std::string> expected{"binary", "ternary", "nf4", "e8m0", "e4m3fn", "e4m3fnuz", "e5m2fnuz"};
  for (int b = 2; b <= 8; ++b) expected.push_back("int" + std::to_string(b));
  for (int b = 1; b <= 8; ++b) expected.push_back("uint" + std::to_string(b));
  for (int b = 2; b <= 4; ++b) expected.push_back("int" + std::to_string(b) + "h");
  for (int b = 1; b <= 8; ++b) expected.push_back("palette" + std::to_string(b));
  for (int b = 3; b <= 8; ++b) {
    for (int e = 1; e < b; ++e) expected.push_back("e" + std::to_string(e) + "m" + std::to_string(b - 1 - e));
  }
  for (const std::string& name : expected) {
    CAPTURE(name);
    CHECK(names.count(name) == 1);
    REQUIRE(crumb::find_number_format(name));
    CHECK(crumb::find_number_format(name)->name == name);
  }
  CHECK(names.size() == expected.size());
  CHECK(crumb::find_number_format("int9") == nullptr);
  CHECK(crumb::find_number_format("") == nullptr);
}

TEST_CASE("number formats: every bit pattern means what the name says") {
  const std::vector<float> nf4(crumb::nf4_values().begin(), crumb::nf4_values().end());
  for (const NumberFormat& f : crumb::number_formats()) {
    CAPTURE(f.name);
    if (f.grid == Grid::kExponent) continue;
    const OracleFormat oracle = crumb::testing::oracle_format(f.name);
    CHECK(f.bits == oracle.bits);
    std::vector<float> codebook = nf4;
    if (f.learned) {
      codebook.clear();
      for (int i = 0; i < 1 << f.bits; ++i) codebook.push_back(static_cast<float>(i) * 0.25F - 3);
    }
    const auto values = crumb::value_table(f, codebook);
    for (int pattern = 0; pattern < 256; ++pattern) {
      CAPTURE(pattern);
      const float expected =
          pattern < 1 << f.bits ? crumb::testing::oracle_value(oracle, pattern, codebook) : 0.0F;
      if (!same(values[static_cast<size_t>(pattern)], expected)) {
        CHECK(values[static_cast<size_t>(pattern)] == expected);
      }
    }
  }
  const auto scales = crumb::value_table(*crumb::find_number_format("e8m0"));
  for (int byte = 0; byte < 255; ++byte)
    CHECK(scales[static_cast<size_t>(byte)] == std::ldexp(1.0F, byte - 127));
  CHECK(std::isnan(scales[255]));
}

TEST_CASE("number formats: ranges, codes and largest values") {
  struct Row {
    const char* name;
    Range range;
    int least, greatest;
    float largest;
  };
  const Row rows[] = {
      {"int2", Range::kNarrow, -1, 1, 1},        {"int2", Range::kFull, -2, 1, 2},
      {"int4", Range::kNarrow, -7, 7, 7},        {"int4", Range::kFull, -8, 7, 8},
      {"int8", Range::kNarrow, -127, 127, 127},  {"int8", Range::kFull, -128, 127, 128},
      {"uint1", Range::kFull, 0, 1, 1},          {"uint4", Range::kNarrow, 0, 14, 14},
      {"uint4", Range::kFull, 0, 15, 15},        {"uint8", Range::kFull, 0, 255, 255},
      {"int2h", Range::kFull, -2, 1, 1.5F},      {"int4h", Range::kFull, -8, 7, 7.5F},
      {"ternary", Range::kNarrow, -1, 1, 1},     {"binary", Range::kFull, 0, 1, 1},
      {"nf4", Range::kFull, 0, 15, 1},           {"palette3", Range::kFull, 0, 7, 1},
      {"e4m3fn", Range::kFull, 0, 255, 448},     {"e4m3", Range::kFull, 0, 255, 480},
      {"e4m3fnuz", Range::kFull, 0, 255, 240},   {"e5m2", Range::kFull, 0, 255, 57344},
      {"e5m2fnuz", Range::kFull, 0, 255, 57344}, {"e3m2", Range::kFull, 0, 63, 28},
      {"e2m3", Range::kFull, 0, 63, 7.5F},       {"e2m1", Range::kFull, 0, 15, 6},
      {"e1m2", Range::kFull, 0, 15, 3.5F},       {"e2m0", Range::kFull, 0, 7, 4},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const NumberFormat& f = *crumb::find_number_format(row.name);
    CHECK(f.least_code(row.range) == row.least);
    CHECK(f.greatest_code(row.range) == row.greatest);
    CHECK(f.largest_value(row.range) == row.largest);
  }
  for (const NumberFormat& f : crumb::number_formats()) {
    CAPTURE(f.name);
    const bool narrow = f.grid == Grid::kInteger && f.is_signed;
    CHECK((f.default_range() == Range::kNarrow) == narrow);
    for (int pattern = 0; pattern < 1 << f.bits; ++pattern) {
      CHECK(f.bits_of(f.code_of(static_cast<uint8_t>(pattern))) == pattern);
    }
    // The largest value is the largest magnitude that the quantizer can emit.
    if (f.grid == Grid::kExponent || f.learned) continue;
    const auto values = crumb::value_table(f);
    for (const Range range : {Range::kNarrow, Range::kFull}) {
      float most = 0;
      for (int code = f.least_code(range); code <= f.greatest_code(range); ++code) {
        const float v = std::fabs(values[f.bits_of(code)]);
        if (std::isfinite(v)) most = std::max(most, v);
      }
      CHECK(f.largest_value(range) == most);
    }
  }
}

TEST_CASE("number formats: what a spec may choose, and what a format is for") {
  const auto begins = [](const NumberFormat& f, std::string_view with) { return f.name.starts_with(with); };
  for (const NumberFormat& f : crumb::number_formats()) {
    CAPTURE(f.name);
    const bool integer = f.bits > 1 && (f.name == "int" + std::to_string(f.bits) || begins(f, "uint"));
    CHECK(f.has_range() == integer);
    CHECK(f.has_zero_point() == (integer || f.name == "uint1"));
    CHECK(f.has_rounding() == !(f.name == "binary" || f.name == "nf4" || begins(f, "palette")));
    CHECK(f.is_signed == !(begins(f, "uint") || f.name == "e8m0"));
    CHECK(f.learned == begins(f, "palette"));
    CHECK(f.scale_only == (f.name == "e8m0"));
    // Only of minifloats, as their names say.
    const bool fields = begins(f, "e") && !f.scale_only;
    CHECK(f.mantissa_bits == (fields ? f.name[3] - '0' : 0));
    CHECK(f.exponent_bits == (fields ? f.name[1] - '0' : f.scale_only ? 8 : 0));
    CHECK((f.specials == crumb::Specials::kNone) ==
          !(f.name == "e5m2" || begins(f, "e4m3fn") || f.name == "e5m2fnuz"));
  }
  const NumberFormat& exponent = *crumb::find_number_format("e8m0");
  CHECK(exponent.largest_value(Range::kFull) == 0x1p127F);
  CHECK(exponent.bias == 127);
  CHECK(crumb::find_number_format("int4")->bias == 0);
  // Formats of two's complement only extend the sign.
  CHECK(crumb::find_number_format("nf4")->code_of(15) == 15);
  CHECK(crumb::find_number_format("uint4")->code_of(15) == 15);
  CHECK(crumb::find_number_format("binary")->code_of(1) == 1);
  CHECK(crumb::find_number_format("int4")->code_of(15) == -1);
  CHECK(crumb::find_number_format("int4h")->code_of(8) == -8);
  CHECK(crumb::find_number_format("int4")->bits_of(-1) == 15);
}

TEST_CASE("number formats: minifloats as the OCP text and the peers tabulate them") {
  struct Row {
    const char* name;
    float smallest_subnormal, smallest_normal;
  };
  const Row rows[] = {{"e4m3fn", 0x1p-9F, 0x1p-6F},
                      {"e5m2", 0x1p-16F, 0x1p-14F},
                      {"e3m2", 0.0625F, 0.25F},
                      {"e2m3", 0.125F, 1},
                      {"e2m1", 0.5F, 1},
                      {"e4m3fnuz", 0x1p-10F, 0x1p-7F},
                      {"e5m2fnuz", 0x1p-17F, 0x1p-15F}};
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const NumberFormat& f = *crumb::find_number_format(row.name);
    const auto values = crumb::value_table(f);
    CHECK(values[1] == row.smallest_subnormal);
    CHECK(values[size_t{1} << f.mantissa_bits] == row.smallest_normal);
  }
  const auto e2m1 = crumb::value_table(*crumb::find_number_format("e2m1"));
  const float grid[8] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  for (size_t i = 0; i < 8; ++i) {
    CHECK(same(e2m1[i], grid[i]));
    CHECK(same(e2m1[i + 8], -grid[i]));
  }
}

TEST_CASE("number formats: e1m(b-2) is the symmetric narrow grid of b-bit integers") {
  for (int b = 3; b <= 8; ++b) {
    CAPTURE(b);
    const NumberFormat& small = *crumb::find_number_format("e1m" + std::to_string(b - 2));
    const NumberFormat& whole = *crumb::find_number_format("int" + std::to_string(b));
    CHECK(small.bits == b);
    // Once the unit in the last place is 1; the bias of one exponent bit makes it so.
    std::multiset<float> a, c;
    const auto values = crumb::value_table(small);
    for (int pattern = 0; pattern < 1 << b; ++pattern) a.insert(values[static_cast<size_t>(pattern)]);
    for (int code = whole.least_code(Range::kNarrow); code <= whole.greatest_code(Range::kNarrow); ++code) {
      c.insert(static_cast<float>(code));
    }
    c.insert(-0.0F);  // the sign bit makes a second zero
    const float unit = values[1];
    std::multiset<float> scaled;
    for (const float v : a) scaled.insert(v / unit);
    CHECK(scaled == c);
    CHECK(small.largest_value(Range::kFull) / unit == whole.largest_value(Range::kNarrow));
  }
}

TEST_CASE("number formats: nf4 is the normal-quantile construction of QLoRA") {
  const double offset = ((1 - 1.0 / 32) + (1 - 1.0 / 30)) / 2;
  std::vector<double> values;
  for (int i = 0; i < 8; ++i) values.push_back(normal_quantile(offset + (0.5 - offset) * i / 8));
  for (int i = 0; i < 7; ++i) values.push_back(-normal_quantile(offset + (0.5 - offset) * i / 7));
  values.push_back(0);
  std::sort(values.begin(), values.end());
  const std::span<const float> nf4 = crumb::nf4_values();
  REQUIRE(nf4.size() == 16);
  for (size_t i = 0; i < 16; ++i) {
    CAPTURE(i);
    CHECK(std::fabs(static_cast<double>(nf4[i]) - values[i] / values.back()) < 2e-7);
    if (i > 0) CHECK(nf4[i] > nf4[i - 1]);
  }
  CHECK(same(nf4[7], 0.0F));
  CHECK(nf4[0] == -1);
  CHECK(nf4[15] == 1);
}

TEST_CASE("block formats: elements, blocks, scales and exponents") {
  const std::map<std::string, std::tuple<std::string, uint64_t, crumb::ScaleFormat>> expected{
      {"mxfp4", {"e2m1", 32, crumb::ScaleFormat::kE8M0}},
      {"mxfp6_e2m3", {"e2m3", 32, crumb::ScaleFormat::kE8M0}},
      {"mxfp6_e3m2", {"e3m2", 32, crumb::ScaleFormat::kE8M0}},
      {"mxfp8_e4m3", {"e4m3fn", 32, crumb::ScaleFormat::kE8M0}},
      {"mxfp8_e5m2", {"e5m2", 32, crumb::ScaleFormat::kE8M0}},
      {"mxint8", {"int8", 32, crumb::ScaleFormat::kE8M0}},
      {"nvfp4", {"e2m1", 16, crumb::ScaleFormat::kE4M3}}};
  CHECK(std::size(crumb::kBlockFormats) == expected.size());
  for (const crumb::BlockFormat& f : crumb::kBlockFormats) {
    CAPTURE(f.name);
    const auto [element, block, scale] = expected.at(std::string(f.name));
    CHECK(f.element == element);
    CHECK(f.block == block);
    CHECK(f.scale == scale);
    const NumberFormat* number = crumb::find_number_format(f.element);
    REQUIRE(number);
    // emax is the exponent of the largest power of two, after the fixed point of mxint8.
    if (f.scale == crumb::ScaleFormat::kE8M0) {
      const float largest = std::ldexp(number->largest_value(number->default_range()), f.scale_exponent);
      CHECK(std::ilogb(largest) == f.emax);
    }
  }
  for (const crumb::BlockFormat& f : crumb::kBlockFormats) {
    CHECK(f.tensor_scale == (f.name == "nvfp4"));
    CHECK(f.scale_exponent == (f.name == "mxint8" ? -6 : 0));
    CHECK(crumb::find_block_format(f.name) == &f);
  }
  CHECK(crumb::find_block_format("nvfp4")->emax == 0);
  CHECK(crumb::find_block_format("mxfp5") == nullptr);
}
